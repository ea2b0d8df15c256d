"""What the overview says of a job by how its last run ended, and the range that sliders cover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cotune.dashboard.answers import StoreAnswers, job_key
from cotune.store import open_store
from cotune.types import Failure
from dashboard.stocked import GOAL, JOB, begin, stock


@pytest.mark.parametrize(
    ("target", "failure", "outcome"),
    [(0.1, None, "met"), (0.9999, None, "missed"), (0.1, Failure("crashed"), "failed")],
)
def test_a_job_is_called_met_when_its_last_run_met_its_goal(
    tmp_path: Path, target: float, failure: Failure | None, outcome: str
) -> None:
    with open_store(str(tmp_path / "store.db")) as store:
        stock(store)
        run = store.sample("run-ended")
        asked = replace(GOAL, target=target, deadline=None, max_cost=None)
        store.save(JOB, replace(run, goal=asked, failure=failure))
        (job,) = StoreAnswers(store).overview()["jobs"]
        assert job["outcome"] == outcome


def test_a_live_card_has_target_and_deadline_and_no_outcome_yet(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "store.db")) as store:
        begin(store, stock(store), 3)
        told = StoreAnswers(store).overview()
        (live,) = told["live"]
        assert (live["target"], live["deadline"]) == (GOAL.target, GOAL.deadline)
        assert told["jobs"][0]["outcome"] is None


def test_sliders_cover_the_goal_that_was_asked_for(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "store.db")) as store:
        stock(store)
        stored = store.plans(JOB, last=1)[0]
        far = replace(stored.plan, goal=replace(GOAL, deadline=10_000_000.0))
        answers = StoreAnswers(store)
        saved = answers.learner(job_key(JOB.name, JOB.fingerprint), answers.job(job_key(JOB.name, JOB.fingerprint)))
        assert saved.seconds_range[0] <= (GOAL.deadline or 0.0) <= saved.seconds_range[1]
        assert saved.planner.space is not None
        store.save_plan(JOB, far, saved.planner.space, saved.planner.cluster)
        question = StoreAnswers(store).opened(job_key(JOB.name, JOB.fingerprint))["question"]
        assert question["seconds"][1] >= 10_000_000.0
