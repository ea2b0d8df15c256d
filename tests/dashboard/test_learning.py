"""What the dashboard learns from: everything, or the newest of very much; once, or again when there is more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cotune.dashboard.learning import CHOICE, Learner, learn
from cotune.dashboard.what_if import WhatIf, findings
from cotune.errors import NotFound
from cotune.space import Axis, Space
from cotune.store import Store, open_store
from cotune.store.views import job_summaries
from cotune.types import Config
from dashboard.stocked import CLUSTER, GOAL, JOB, SPACE, bulk, sample, stock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "store.db")) as opened:
        yield opened


def test_the_last_plan_says_what_may_be_chosen(store: Store) -> None:
    stock(store)
    learnt = learn(store, job_summaries(store)[0])
    assert (learnt.planner.space, learnt.planner.cluster, learnt.planner.goal) == (SPACE, CLUSTER, GOAL)
    assert not learnt.assumed
    assert learnt.accuracy_range is not None
    assert learnt.accuracy_range[0] < GOAL.target < learnt.accuracy_range[1]


def test_without_a_plan_the_range_is_what_was_measured(store: Store) -> None:
    rng = np.random.default_rng(0)
    for place, (workers, batch) in enumerate([(1, 16), (3, 64)]):
        store.save(JOB, sample(rng, Config.data_parallel(batch, workers, "t4"), 0, f"s{place}"))
    learnt = learn(store, job_summaries(store)[0])
    assert learnt.assumed
    assert learnt.planner.space == Space(
        (Axis("workers", (1, 2, 3)), Axis("batch_size", (16, 64)), Axis("device", ("t4",)))
    )
    assert learnt.accuracy_range is None
    assert findings(learnt, WhatIf(deadline=1e6)).plan is not None


def test_nothing_measured_is_nothing_to_learn_from(store: Store) -> None:
    with store._writing_of(JOB):
        pass
    with pytest.raises(NotFound, match="cotune profile measures it"):
        learn(store, job_summaries(store)[0])


def test_of_very_many_samples_the_newest_of_each_config_are_learnt_from(store: Store) -> None:
    bulk(store, 3000)
    learnt = learn(store, job_summaries(store)[0])
    assert len(learnt.samples) <= CHOICE.most
    everything = store.samples(JOB)
    assert {one.config for one in learnt.samples} == {one.config for one in everything}
    assert learnt.samples[-1].id == everything[-1].id
    assert any(note.startswith("learnt from the newest") for note in learnt.planner.outlook.notes)


def test_a_job_is_learnt_once_until_something_new_was_measured(store: Store) -> None:
    stock(store)
    learner = Learner(store)
    assert learner.latest("key") is None
    first = learner("key", job_summaries(store)[0])
    assert learner.latest("key") is first
    assert learner("key", job_summaries(store)[0]) is first
    assert learner.revision == 1
    store.save(JOB, sample(np.random.default_rng(9), Config.data_parallel(64, 6, "t4"), 0, "new"))
    assert learner("key", job_summaries(store)[0]) is first, "a question does not wait for a fit"
    for thread in learner.fitting:
        thread.join()
    assert learner.revision == 2
    assert len(learner("key", job_summaries(store)[0]).samples) == len(first.samples) + 1
