from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from cli.jobs import cotune
from torchrun import finished

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_script_with_a_report_learns_tells_and_stops_at_the_target(tmp_path: Path) -> None:
    told = tmp_path / "reports"
    environment = {**os.environ, "COTUNE_REPORT": str(told), "COTUNE_TARGET": "0.85", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(EXAMPLES / "with_report.py"), "--epochs", "40"]
    said = finished([*command, *script], environment)
    printed = re.findall(r"^epoch (\d+) accuracy (0\.\d+)$", said, re.MULTILINE)
    assert 1 < len(printed) < 40
    reports = [json.loads(line) for line in told.read_text().splitlines()]
    assert len(reports) == 2 * len(printed)
    assert float(printed[-1][1]) >= 0.85


def test_the_two_scripts_differ_by_the_report_alone() -> None:
    plain, reporting = (
        (EXAMPLES / name).read_text().split('"""', 2)[2].splitlines() for name in ("minimal_ddp.py", "with_report.py")
    )
    added = [line for line in reporting if line not in plain]
    assert added == ["import cotune", "    if cotune.report(epoch=epoch, accuracy=accuracy):", "        break"]
    assert [line for line in plain if line not in reporting] == []


@pytest.mark.parametrize("name", ["minimal_ddp.py", "with_report.py"])
def test_a_script_of_two_workers_runs_under_cotune_changed_or_not(tmp_path: Path, name: str) -> None:
    pattern = ("--pattern", r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>[\d.]+)") if name == "minimal_ddp.py" else ()
    flags = ("--workers", "2", "--batch-size", "32", "--epochs", "3", *pattern, "--json")
    words = ("--", "python", str(EXAMPLES / name), "--batch-size", "{batch_size}", "--epochs", "{epochs}")
    done = cotune(tmp_path, "run", "--examples", "1500", *flags, *words)
    assert done.code == 0, done.err
    assert [point["epoch"] for point in done.json["run"]["curve"]] == [1, 2, 3]
    assert done.json["run"]["config"]["workers"] == 2
