"""`place --keep`, and a report of what the store holds."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.jobs import cotune
from cotune.jobfile import settings as job_settings
from cotune.placement.testing import ctr
from cotune.store import open_store
from cotune.store.views import result_list
from cotune.types import Config, Evaluation, Sample, Terms
from lab.worlds import accuracy_at, step_seconds


def test_a_placement_is_kept_with_its_layers(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(json.dumps(ctr(random.Random(2), 6, 2)))
    done = cotune(tmp_path, "place", "net.json", "--throughput", "20000", "--keep", "--store", "kept.db", "--json")
    assert done.code == 0, done.err
    with open_store(str(tmp_path / "kept.db")) as store:
        document = store.result(result_list(store)[0].id).document
    assert document["plan"] == done.json["plan"]
    assert len(document["layers"]) == 6


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder whose store holds samples of its job."""
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "cotune.yaml").write_text(
        "name: known\nrun: python train.py {batch_size}\nexamples: 20000\nmax_epochs: 40\n"
        "search: {workers: [1, 2, 4], batch_size: [32, 64]}\n"
    )
    job = job_settings.load(tmp_path / "cotune.yaml", {}).job
    rng = np.random.default_rng(0)
    with open_store(start=tmp_path) as store:
        for workers, batch in ((1, 32), (2, 64), (4, 32), (4, 64)):
            pace = step_seconds(workers, batch) * 20000 / (workers * batch)
            curve = tuple(
                Evaluation(float(e), accuracy_at(workers * batch, e) + 0.001 * float(rng.normal()), pace * e)
                for e in range(1, 9)
            )
            layout = Config.data_parallel(batch, workers)
            name, best = f"{workers}-{batch}", curve[-1].accuracy
            store.save(job, Sample(layout, 8.0, pace, best, Terms(startup=1.0), curve, 8 * pace, id=name))
    return tmp_path


def test_a_report_without_a_goal_is_of_the_latest_plan(measured: Path) -> None:
    planned = cotune(measured, "plan", "--target", "accuracy=0.8", "--deadline", "10m", "--json")
    assert planned.code == 0, planned.err
    told = cotune(measured, "report", "-o", "report.html", "--json")
    assert told.code == 0, told.err
    assert told.json["goal"]["target"] == 0.8
    assert "following plan" not in told.err, "the job file asks for nothing else"
    assert told.json["plan"] == planned.json["plan"]
    assert told.json["page"] == "report.html"
    assert "0.8 within 10 min 00 s" in (measured / "report.html").read_text()
    asked = cotune(measured, "report", "--target", "0.7", "--json")
    assert asked.json["goal"]["target"] == 0.7


@pytest.mark.parametrize(
    ("verb", "missing", "extra"),
    [("report", "plotly", "plots"), ("dashboard", "fastapi", "dashboard"), ("dashboard", "uvicorn", "dashboard")],
)
def test_a_missing_extra_is_named_in_one_line(measured: Path, verb: str, missing: str, extra: str) -> None:
    words = ["report", "--epochs", "2", "-o", "x.html"] if verb == "report" else ["dashboard", "--no-open"]
    code = f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['cotune', *{words!r}];"
    code += "from cotune.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=measured, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert f"pip install 'cotune[{extra}]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
