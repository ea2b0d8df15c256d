"""Input shards: dealt out, joined end to end, read from files and from a real S3 server."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice, repeat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cotune.errors import InvalidFile, NotFound
from cotune.placement.pipeline.checkpoint import LanePlace
from cotune.placement.pipeline.clicks import COLUMNS, made_up, read, shards_of
from cotune.placement.pipeline.layers import Flow
from cotune.placement.pipeline.shards import Lane, Prefetched, dealt
from piped import Piped


def numbered(shard: str) -> Flow:
    """A shard of ten rows that tell where they come from."""
    return {"row": torch.arange(10) + 10 * int(shard)}


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 25))
def test_lanes_take_every_shard_once_an_epoch_between_them(shards: int, lanes: int, seed: int) -> None:
    names = [str(number) for number in range(shards)]
    streams = [dealt(names, lane, lanes, seed) for lane in range(lanes)]
    handed = [int(next(streams[turn % lanes])[1]) for turn in range(3 * shards)]
    for epoch in range(3):
        assert sorted(handed[epoch * shards : (epoch + 1) * shards]) == list(range(shards))


@given(st.integers(1, 4), st.integers(1, 35), st.integers(0, 5))
def test_a_lane_loses_and_repeats_no_row_wherever_it_is_taken_up_again(shards: int, size: int, broken: int) -> None:
    names = [str(number) for number in range(shards)]
    whole = Lane(dealt(names, 0, 1, 7), numbered, size, LanePlace())
    expected = [int(row) for piece in islice(whole, 8) for row in piece["row"]]
    first = Lane(dealt(names, 0, 1, 7), numbered, size, LanePlace())
    found = [int(row) for piece in islice(first, broken) for row in piece["row"]]
    again = Lane(dealt(names, 0, 1, 7, first.place.shard), numbered, size, first.place)
    found += [int(row) for piece in islice(again, 8 - broken) for row in piece["row"]]
    assert found == expected
    assert sorted(expected[: 10 * shards]) == list(range(min(len(expected), 10 * shards))) or 8 * size < 10 * shards


def test_the_reader_fails_where_the_batch_is_wanted() -> None:
    def broken(shard: str) -> Flow:
        if shard == "0":
            return {"row": torch.arange(3)}
        raise InvalidFile("no such thing")

    lane = Prefetched([Lane(iter([(0, "0"), (1, "1")]), broken, 3, LanePlace())])
    assert len(lane.take()["row"]) == 3
    with pytest.raises(InvalidFile, match="no such thing"):
        lane.take()


def written(folder: Path, shards: int = 3, rows: int = 40) -> list[Flow]:
    """Write made-up clicks as npz shards."""
    flows = [made_up(rows, number) for number in range(shards)]
    for number, flow in enumerate(flows):
        np.savez(folder / f"part-{number}.npz", **{name: column.numpy() for name, column in flow.items()})
    return flows


def test_files_are_read_by_folder_pattern_and_name(tmp_path: Path) -> None:
    flows = written(tmp_path)
    for url, count in ((str(tmp_path), 3), (f"{tmp_path}/part-[12].npz", 2), (f"file://{tmp_path}/part-0.npz", 1)):
        assert len(shards_of(url)) == count
    found = read(shards_of(str(tmp_path))[1])
    assert all(torch.equal(found[name], flows[1][name]) for name in COLUMNS)


@pytest.mark.skipif("COTUNE_DATA" not in os.environ, reason="needs COTUNE_DATA")
def test_the_criteo_sample_is_read_as_it_is(tmp_path: Path) -> None:
    (shard,) = shards_of("criteo")
    flow = read(shard)
    assert flow["ids"].shape == (200, 26)
    assert int(flow["label"].sum()) == 49
    assert 0 < float((flow["ids"] == 0).float().mean()) < 0.2
    packed = tmp_path / "again.csv.gz"
    packed.write_bytes(gzip.compress(Path(shard.removeprefix("file://")).read_bytes()))
    assert all(torch.equal(column, read(str(packed))[name]) for name, column in flow.items())


@pytest.mark.parametrize(
    ("text", "words"),
    [("1,2,3\n", "13 counts and 26 categories"), ("x" + "," * 39 + "\n", "invalid literal"), ("", "every line")],
)
def test_a_broken_shard_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(InvalidFile, match=words):
        read(str(path))


@pytest.mark.parametrize("url", ["/nowhere/at-all", "gopher://x/y", "zipff"])
def test_what_cannot_be_found_is_said(url: str) -> None:
    with pytest.raises(NotFound, match=r"no shards at|cannot open"):
        shards_of(url)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield a bucket of a real S3 server on this machine, with shards in it."""
    pytest.importorskip("s3fs", reason="needs s3fs")
    server = pytest.importorskip("moto.server", reason="needs moto[server]").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    import fsspec

    written(tmp_path)
    system = fsspec.filesystem("s3", skip_instance_cache=True)
    system.mkdir("clicks")
    system.put(str(tmp_path / "part-*.npz"), "s3://clicks/day/")
    yield "s3://clicks/day/"
    server.stop()
    fsspec.filesystem("s3").clear_instance_cache()


def test_a_pipeline_reads_the_same_from_s3_as_from_files(
    pipe: Callable[..., Piped], bucket: str, tmp_path: Path
) -> None:
    stages = [("cpu", 2, 0, 0), ("cpu", 1, 1, 4)]
    flags = ("--model", "ctrdnn(width=8, rows=500)", "--batch-size", 32, "--batches", 6, "--lr", 0.01)
    remote = pipe(stages, *flags, "--data", f"{bucket}part-*.npz").losses
    assert remote == pipe(stages, *flags, "--data", tmp_path).losses
    assert len(set(remote)) == 6


class _WebHdfs(BaseHTTPRequestHandler):
    """A folder as a name node of Hadoop shows it over HTTP: list, status, and open by way of a data node."""

    root: Path

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        path, does = asked.path.removeprefix("/webhdfs/v1"), parse_qs(asked.query)
        found = self.root / path.lstrip("/")
        if not found.exists():
            error = {"exception": "FileNotFoundException", "message": f"File does not exist: {path}"}
            self._say(404, {"RemoteException": error})
        elif does["op"] == ["LISTSTATUS"]:
            within = sorted(found.iterdir()) if found.is_dir() else [found]
            listed = [_status(each, each.name if found.is_dir() else "") for each in within]
            self._say(200, {"FileStatuses": {"FileStatus": listed}})
        elif does["op"] == ["GETFILESTATUS"]:
            self._say(200, {"FileStatus": _status(found, "")})
        elif "datanode" not in does:
            self.send_response(307)
            self.send_header("Location", f"http://{self.headers['Host']}{self.path}&datanode=1")
            self.end_headers()
        else:
            first = int(does.get("offset", ["0"])[0])
            data = found.read_bytes()[first:]
            self._send(200, data[: int(does["length"][0])] if "length" in does else data)

    def _say(self, code: int, answer: object) -> None:
        self._send(code, json.dumps(answer).encode())

    def _send(self, code: int, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _status(path: Path, name: str) -> dict[str, object]:
    kind = "DIRECTORY" if path.is_dir() else "FILE"
    return {"pathSuffix": name, "type": kind, "length": path.stat().st_size if path.is_file() else 0}


def test_shards_are_read_from_a_server_that_speaks_hadoops_http(tmp_path: Path) -> None:
    pytest.importorskip("requests", reason="needs requests: pip install 'cotune[hdfs]'")
    (tmp_path / "clicks").mkdir()
    flows = written(tmp_path / "clicks")
    with ThreadingHTTPServer(("127.0.0.1", 0), type("_Here", (_WebHdfs,), {"root": tmp_path})) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"webhdfs://127.0.0.1:{server.server_port}"
        shards = shards_of(f"{address}/clicks")
        assert shards == [f"{address}/clicks/part-{number}.npz" for number in range(3)]
        assert shards_of(f"{address}/clicks/part-[12].npz") == shards[1:]
        found = read(shards[2])
        with pytest.raises(NotFound, match="no shards at"):
            shards_of(f"{address}/elsewhere")
        server.shutdown()
    assert all(torch.equal(found[name], flows[2][name]) for name in COLUMNS)


def test_hdfs_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(NotFound, match=r"pip install 'cotune\[hdfs\]'"):
        shards_of("hdfs://namenode:8020/clicks")


def test_rows_come_in_the_order_of_the_lanes(tmp_path: Path) -> None:
    written(tmp_path)
    shards = shards_of(str(tmp_path))

    def lanes() -> list[Lane]:
        return [Lane(dealt(shards, lane, 2, 0), read, 4, LanePlace()) for lane in range(2)]

    batches = [Prefetched([lane]) for lane in lanes()]
    together = Prefetched(lanes())
    for _ in islice(repeat(None), 5):
        apart = torch.cat([batch.take()["ids"] for batch in batches])
        assert torch.equal(together.take()["ids"], apart)
