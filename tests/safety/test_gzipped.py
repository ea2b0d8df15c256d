from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from cotune.cluster import traces
from cotune.errors import InvalidFile
from cotune.safety import gzipped

HEADER = b"job_id,submit_s,gpus,duration_s\n"


def bomb(mebibytes: int) -> bytes:
    out = io.BytesIO()
    with gzip.open(out, "wb", compresslevel=1) as packed:
        packed.write(HEADER)
        for _ in range(mebibytes):
            packed.write(b"\n" * (1 << 20))
    return out.getvalue()


def test_what_unpacks_to_far_more_than_it_should_is_refused_before_it_is_all_there(tmp_path: Path) -> None:
    packed = bomb(100)
    with pytest.raises(ValueError, match="which no real data does"):
        gzipped.decompress(packed)
    (tmp_path / "trace.csv.gz").write_bytes(packed)
    with pytest.raises(InvalidFile, match="which no real data does"):
        traces.read(tmp_path / "trace.csv.gz")


def test_ordinary_traces_are_read_packed_as_they_are_plain(tmp_path: Path) -> None:
    plain = HEADER + b"".join(b"%d,%d,1,60\n" % (number, number) for number in range(1000))
    assert gzipped.decompress(gzip.compress(plain)) == plain
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress(plain))
    assert len(traces.read(tmp_path / "trace.csv.gz").jobs) == 1000
