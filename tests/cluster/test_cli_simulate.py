"""`cotune simulate` from the outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cotune.cli.app import app

TRACE = """job_id,submit_s,gpus,duration_s,deadline_s
long,0,4,100,400
wide,1,8,10,60
short,2,1,5,9
late,3,8,10,500
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


def simulated(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments), "--json"])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_document_has_the_fields_of_the_contract(trace: str) -> None:
    found = simulated(trace, "--cluster", "8", "--policy", "fifo,srtf,las(variant=pollux)")
    assert (found["schema"], found["version"]) == ("cotune.simulate", 1)
    results = found["results"]
    assert list(results) == ["fifo", "srtf", "las(variant=pollux)"]
    fifo = results["fifo"]
    assert {"jobs", "unfinished", "jct_mean", "jct_p50", "jct_p99", "makespan"} <= set(fifo)
    # long 0-100, wide 100-110, short 110-115, late 115-125
    assert (fifo["jobs"], fifo["unfinished"], fifo["jct_mean"], fifo["makespan"]) == (4, 0, 111.0, 125.0)
    assert fifo["deadlines"]["met"] == 2
    assert results["srtf"]["preemptions"] >= 1


def test_a_waiting_job_is_explained(trace: str) -> None:
    why = simulated(trace, "--cluster", "8", "--policy", "fifo", "--why", "late", "--at", "50")["why"]
    found = why["fifo"]
    assert found["state"] == "waiting"
    assert found["ahead"] == ["wide", "short"]
    assert "needs 8 GPUs and 4 are free" in found["blocked_by"]
    assert found["start_p50"] > 50
    assert found["start_p90"] >= found["start_p50"]
    assert "would start it now" in found["change"]


def test_a_job_that_was_stopped_for_others_is_told_when_it_goes_on(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,gpus,duration_s\nlong,0,8,100\nshort,20,8,30\n")
    words = ("--cluster", "8", "--policy", "srtf", "--why", "long", "--at")
    waiting, running = (simulated(str(trace), *words, at)["why"]["srtf"] for at in ("40", "10"))
    assert (waiting["state"], waiting["started"], waiting["stopped"]) == ("waiting", 0.0, 20.0)
    assert waiting["start_p90"] >= waiting["start_p50"] > 40
    assert (running["state"], running["started"], running["stopped"]) == ("running", 0.0, None)


def test_noise_changes_beliefs_and_not_the_truth(trace: str) -> None:
    found = simulated(trace, "--cluster", "8", "--policy", "fifo,srtf", "--noise", "0.5")
    noise = found["noise"]
    results = found["results"]
    assert noise["0.5"]["fifo"]["jct_mean"] == results["fifo"]["jct_mean"]


def test_jobs_that_never_end_have_no_mean_to_compare(tmp_path: Path) -> None:
    endless = tmp_path / "endless.csv"
    endless.write_text("job_id,submit_s,gpus,duration_s\na,0,1,inf\n")
    arguments = (str(endless), "--cluster", "4", "--noise", "0.3", "--policy", "fifo,srtf")
    document = simulated(*arguments)
    assert document["flips"] == []
    assert document["results"]["srtf"]["jct_mean"] is None
    shown = CliRunner().invoke(app, ["simulate", *arguments])
    assert shown.exit_code == 0
    assert shown.stdout.count("srtf") == 2
