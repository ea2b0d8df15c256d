"""benchmarks/service_day.py in half a minute: real jobs through the real service, beside the simulator's forecast."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(400)
def test_every_job_of_a_small_day_ends_and_has_its_forecast_beside_it(tmp_path: Path) -> None:
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "service_day.py"))
    day = benchmark["Day"](jobs=2, nodes=2, cores=1.0, gap=2.0, limit=300.0, recipes=1)
    found = benchmark["lived"]("joint", day, tmp_path)
    jobs, summary = found["jobs"], found["summary"]
    assert len(jobs) == summary["jobs"] == 2
    assert {one["state"] for one in jobs} <= {"met", "missed", "declined"}, jobs
    ran = [one for one in jobs if one["state"] in ("met", "missed")]
    assert ran, jobs
    for one in ran:
        assert one["starts"] >= 1
        assert min(one["seconds"], one["cost"], one["forecast_seconds"], one["forecast_cost"]) > 0
    assert summary["met"] == sum(one["state"] == "met" for one in jobs)
