"""Numbers and words on the command line that no run could use: refused in one line, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import cotune

TRACE = "job_id,submit_s,gpus,duration_s\na,0,1,60\nb,5,2,120\n"
SCRIPT = ("--", "python", "-c", "1", "{batch_size}")


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "t.csv", "--cluster", "8", "--why", "b", "--at", "nan"),
        ("simulate", "t.csv", "--cluster", "8", "--why", "b", "--at", "inf"),
        ("simulate", "t.csv", "--cluster", "8", "--policy", "las(thresholds=3250:7200)"),
        ("simulate", "t.csv", "--cluster", "8", "--policy", "optimus(interval=-1)"),
        ("simulate", "t.csv", "--cluster", "8", "--policy", "fair_share(half_life=0)"),
        ("run", "-w", "100000", "-b", "8", "--epochs", "1", *SCRIPT),
        ("run", "-w", "2", "-b", "99999999999999999999", "--epochs", "1", *SCRIPT),
        ("export", "torchrun", "-w", "2", "-b", "99999999999999999999", *SCRIPT),
        ("profile", "-w", "[1", *SCRIPT),
        ("profile", "-w", "@", *SCRIPT),
        ("profile", "-b", "99999999999999999999", *SCRIPT),
        ("plan", "--deadline", "1e308", *SCRIPT),
        ("plan", "--max-cost", "nan", *SCRIPT),
    ],
)
def test_what_no_run_could_use_is_a_wrong_argument(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    done = cotune(tmp_path, *words)
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
