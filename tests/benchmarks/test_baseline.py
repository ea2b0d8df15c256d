"""benchmarks/baseline.py: a second run says which figures are worse than their tolerances allow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = ("--only", "help")


def baseline(out: Path, *others: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/baseline.py", str(out), *ROW, *others]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_figure_beyond_its_tolerance_is_outside_and_a_stored_row_is_not_run_again(tmp_path: Path) -> None:
    first = baseline(tmp_path)
    assert first.returncode == 0, first.stderr
    kept = tmp_path / "help.json"
    found = json.loads(kept.read_text())
    assert 0 < found["figures"]["processor_seconds"] < 60

    before = tmp_path / "before.json"
    before.write_text((tmp_path / "baseline.json").read_text())
    found["figures"]["processor_seconds"] *= 1.05
    kept.write_text(json.dumps(found))
    assert baseline(tmp_path, "--compare", str(before)).returncode == 0

    found["figures"]["processor_seconds"] *= 1.10
    kept.write_text(json.dumps(found))
    worse = baseline(tmp_path, "--compare", str(before))
    assert worse.returncode == 1
    assert "OUTSIDE" in worse.stdout
    assert json.loads(kept.read_text()) == found
