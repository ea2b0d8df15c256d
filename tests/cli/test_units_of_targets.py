"""Per cent or parts of one: asked before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import cotune
from cotune.errors import Infeasible, UsageError
from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import Settings, laid_over
from cotune.project import warnings

PER_CENT = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>[\d.]+)%"
PARTS = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>[\d.]+)"


def test_a_target_in_parts_of_a_metric_in_per_cent_is_refused_with_the_number_meant(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"write accuracy=98$"):
        _settings(PER_CENT, "accuracy=0.98", tmp_path)
    with pytest.raises(UsageError, match=r"write accuracy=98$"):
        laid_over(_settings(PER_CENT, "accuracy=90", tmp_path), {"target": "accuracy=0.98"})


def test_a_target_in_per_cent_is_asked_about_where_nothing_shows_per_cent(tmp_path: Path) -> None:
    (said,) = warnings.of_goal(_settings(PARTS, "accuracy=98", tmp_path))
    assert "write accuracy=0.98" in said


@pytest.mark.parametrize(("pattern", "target"), [(PER_CENT, "accuracy=98"), (PARTS, "accuracy=0.98")])
def test_a_target_in_the_unit_of_the_job_is_not_doubted(pattern: str, target: str, tmp_path: Path) -> None:
    assert not list(warnings.of_goal(_settings(pattern, target, tmp_path)))


def test_a_target_in_per_cent_is_asked_about_after_the_first_probe_that_tells_parts_of_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys, time\n"
        "for epoch in range(1, int(sys.argv[2]) + 1):\n"
        "    time.sleep(0.05)\n"
        "    print(f'epoch {epoch} accuracy {0.9 - 0.1 / epoch}', flush=True)\n"
    )
    (tmp_path / "cotune.yaml").write_text(
        f"run: python train.py {{batch_size}} {{epochs}}\npattern: '{PARTS}'\nmax_epochs: 4\n"
        "search: {workers: 1, batch_size: [8, 16, 32, 64]}\n"
    )
    store = ("--store", str(tmp_path / "store.db"))
    done = cotune(tmp_path, "plan", "--target", "accuracy=90", "--deadline", "5m", *store)
    assert done.code == Infeasible.exit_code, done.err
    assert "is the target in the same unit (0.9)?" in " ".join(done.err.split())
    samples = cotune(tmp_path, "samples", "--json", *store).json["samples"]
    assert sum(bool(sample["curve"]) for sample in samples) == 1


def _settings(pattern: str, target: str, folder: Path) -> Settings:
    text = f"run: python train.py {{batch_size}}\npattern: '{pattern}'"
    return job_settings.loads(text, {"target": target}, "cotune.yaml", folder)
