"""Traces as people have them: several formats, and broken in every way."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest

from cotune.cluster.simulate.clusters import parse_cluster
from cotune.cluster.traces import fitting, read
from cotune.errors import CotuneError, InvalidFile

HEAD = "job_id,submit_s,gpus,duration_s\n"


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("b,-5,1,10", "line 3: submit_s is -5"),
        ("b,nan,1,10", "line 3: submit_s is nan"),
        ("b,5,0,10", "line 3: gpus is 0"),
        ("b,5,1.5,10", "line 3: gpus is '1.5', not a whole number"),
        ("b,5,many,10", "line 3: gpus is 'many', not a number"),
        ("b,5,1,-10", "line 3: duration_s is -10"),
        ("b,5,1,1000000000", "line 3: duration_s is 1000000000, that is 31.7 years"),
        ("b,5,1,", "line 3: duration_s is missing"),
        ("a,5,1,10", "line 3: job_id 'a' was used before, in line 2"),
        (",5,1,10", "line 3: job_id is missing"),
        ("b,5,1", "line 3: 3 fields where the header has 4"),
    ],
)
def test_a_broken_line_is_named_with_its_reason_or_left_out(tmp_path: Path, line: str, reason: str) -> None:
    path = written(tmp_path, f"{HEAD}a,0,1,10\n{line}\nc,9,2,10\n")
    with pytest.raises(InvalidFile, match=r"line \d") as caught:
        read(path)
    assert reason in str(caught.value)
    kept = read(path, skip_bad=True)
    assert [job.name for job in kept.jobs] == ["a", "c"]
    assert len(kept.left_out) == 1
    assert reason in kept.left_out[0]


def test_an_unknown_column_is_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    path = written(tmp_path, "job_id,submit_s,gpus,duration_s,deadlines\na,0,1,5,9\n")
    with pytest.raises(InvalidFile, match="line 1: unknown column 'deadlines'; did you mean 'deadline_s'"):
        read(path)
    assert len(read(path, skip_bad=True).jobs) == 1


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("priority", "high", "priority is 'high', not a number"),
        ("priority", "1.5", "priority is 1.5, not a whole number"),
        ("weight", "two", "weight is 'two', not a number"),
        ("weight", "-1", "weight is -1; it must be positive"),
        ("rack_slowdown", "slow", "rack_slowdown is 'slow', not a number"),
        ("rack_slowdown", "0.5", "rack_slowdown is 0.5; it is 1 or more"),
    ],
)
def test_a_broken_field_that_may_be_left_out_is_named(tmp_path: Path, column: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidFile, match=f"line 2: {reason}"):
        read(written(tmp_path, f"{HEAD.strip()},{column}\na,0,1,10,{value}\n"))


@pytest.mark.parametrize("text", ["", "job_id,gpus\na,1\n", HEAD, "\0\0\0", "{}", HEAD + '"a,0,1,5\n'])
def test_what_is_no_trace_is_an_error_a_user_can_act_on(tmp_path: Path, text: str) -> None:
    for skip_bad in (False, True):
        with pytest.raises(CotuneError):
            read(written(tmp_path, text), skip_bad=skip_bad)


def test_a_torn_archive_is_an_invalid_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress((HEAD + "a,0,1,5\n" * 50).encode())[:-20])
    with pytest.raises(InvalidFile):
        read(path)


def test_a_job_larger_than_the_cluster_is_named_or_left_out(tmp_path: Path) -> None:
    trace = read(written(tmp_path, HEAD + "a,0,1,5\nwide,0,9,5\n"))
    with pytest.raises(InvalidFile, match="line 3: job 'wide' asks for 9 GPUs, the cluster has 8"):
        fitting(trace, parse_cluster("8"))
    assert [job.name for job in fitting(trace, parse_cluster("8"), skip_bad=True).jobs] == ["a"]


def test_lines_are_chosen_by_a_column(tmp_path: Path) -> None:
    path = written(tmp_path, "job_id,cluster,submit_s,gpus,duration_s\na,01,0,1,5\nb,02,0,1,5\n", "t.csv.gz")
    assert [job.name for job in read(path, {"cluster": "02"}).jobs] == ["b"]
    with pytest.raises(InvalidFile, match="no column 'vc'"):
        read(path, {"vc": "1"})


def test_accounts_of_slurm_are_read(tmp_path: Path) -> None:
    text = (
        "JobID|Submit|ElapsedRaw|AllocTRES|Account\n"
        "7|2024-01-01T00:00:00|3600|billing=8,cpu=8,gres/gpu=4,node=1|red\n"
        "7.batch|2024-01-01T00:00:00|3600|cpu=8|red\n"
        "8|2024-01-01T00:10:00|60|cpu=8,gres/gpu:a100=2,gres/gpu=2|blue\n"
    )
    first, second = read(written(tmp_path, text)).jobs
    assert (first.gpus, first.seconds, first.team, second.submit, second.gpus) == (4, 3600.0, "red", 600.0, 2)


@pytest.mark.parametrize("spec", ["0", "-3", "4x", "x4", ""])
def test_a_cluster_that_cannot_be_read_is_explained(spec: str) -> None:
    with pytest.raises(CotuneError, match="cannot read the cluster"):
        parse_cluster(spec)


def test_a_cluster_file_names_devices_prices_and_nodes(tmp_path: Path) -> None:
    path = written(tmp_path, "devices: {a100: {count: 16, per_node: 8, price_per_hour: 2.5}}\n", "c.yaml")
    device = parse_cluster(str(path)).devices[0]
    assert (device.name, device.count, device.per_node, device.price_per_hour) == ("a100", 16, 8, 2.5)
    with pytest.raises(InvalidFile, match="counts"):
        parse_cluster(str(written(tmp_path, "devices: {a100: {count: 1, counts: 16}}\n", "d.yaml")))


def test_a_trace_may_come_through_a_pipe_packed_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"\xef\xbb\xbfduration_s,gpus,job_id,submit_s\r\n10,2.0,a b,0\r\n\r\n , , ,\r\n5,1,\xc3\xbc,1.5\r\n\r\n"
    for data in (text, gzip.compress(text)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        jobs = read(Path("-")).jobs
        assert [(job.name, job.gpus, job.submit) for job in jobs] == [("a b", 2, 0.0), ("ü", 1, 1.5)]


def test_a_column_that_is_missing_is_named_beside_what_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("job_id,submit_s,gpu,duration_s\na,0,1,10\n")
    with pytest.raises(InvalidFile, match=r"trace\.csv, line 1: no column 'gpus'; unknown column 'gpu'[^-]*$"):
        read(path, skip_bad=True)
