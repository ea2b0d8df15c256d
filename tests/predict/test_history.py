"""Old samples of jobs like this one: what they may say, how far they are trusted, and when they make way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotune.predict.history import FACTOR_DOUBT, UNKNOWN_DOUBT, History, likeness
from cotune.predict.learn import forecaster
from cotune.probe.design import Design
from cotune.probe.recalling import Recalling
from cotune.space import Axis, Configs, Space
from cotune.types import Cause, Cluster, Config, CountedModel, Failure, Goal, Job, LearningRate, Sample
from predict.worlds import plain_step, timed, trained

COMMAND = ("python", "train.py", "--data", "mnist", "{batch_size}")
JOB = Job("mine", COMMAND, 50_000, folder="/here", where="local on here")
ELSEWHERE = replace(JOB, name="theirs", where="ray")
CONFIGS = Configs.of([Config.data_parallel(batch, workers) for batch in (32, 64) for workers in (1, 2, 4)])


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (ELSEWHERE, (1.0, False, True)),
        (replace(JOB, folder="/there"), (1.0, True, True)),
        (replace(JOB, examples=25_000), (2.0, True, False)),
        (replace(JOB, command=("python", "train.py", "--data", "cifar10", "{batch_size}")), (1.0, True, False)),
        (replace(JOB, lr=LearningRate(0.1, 64)), (1.0, True, False)),
    ],
)
def test_what_differs_decides_what_an_old_job_can_say(other: Job, says: tuple[float, bool, bool]) -> None:
    alike = likeness(JOB, other)
    assert alike is not None
    assert (alike.scale, alike.same_pace, alike.accuracy) == says
    assert alike.differs


@pytest.mark.parametrize(
    "command", [("python", "other.py"), ("python", "train.py", "--model", "big", "{batch_size}"), ()]
)
def test_another_command_is_another_job(command: tuple[str, ...]) -> None:
    assert likeness(JOB, replace(JOB, command=command)) is None


def test_a_job_of_the_same_model_teaches_its_pace_after_one_own_probe_whatever_its_command_and_data() -> None:
    model = CountedModel("d0d0", 1e6, 1e3)
    mine = replace(JOB, model=model)
    theirs = Job("theirs", ("torchrun", "big.py", "{batch_size}"), 25_000, metric="loss", model=replace(model))
    alike = likeness(mine, theirs)
    assert alike is not None
    assert (alike.scale, alike.same_pace, alike.accuracy) == (2.0, False, False)
    assert likeness(mine, replace(theirs, model=CountedModel("beef", 1e6, 1e3))) is None
    assert likeness(replace(mine, model=None), theirs) is None
    old = [
        replace(sample, peak_bytes=2**30, limit_bytes=2**31)
        for sample in (*timed(plain_step, [(b, w) for b in (16, 64, 256) for w in (1, 2, 4)]), *trained([64]))
    ]
    history = History.of(mine, Cluster(), [(theirs, old)])
    (own,) = timed(lambda b, w: 3 * plain_step(b, w), [(32, 1)])
    known = history.blended([own])
    assert not any(sample.curve or sample.peak_bytes for sample in known)
    outlook = history.doubted(forecaster(mine, known, Cluster(), accuracy=None), [own])(CONFIGS, 5)
    truth = np.array([3 * plain_step(c.batch_size, c.workers) * 50_000 / c.global_batch for c in CONFIGS])
    assert np.abs(np.log(outlook.epoch_seconds / truth)).max() < 0.1
    assert outlook.spread[2] >= FACTOR_DOUBT
    assert "samples of theirs of the same model by another command" in outlook.notes[-1]


def test_one_own_probe_tells_how_much_slower_this_machine_is() -> None:
    old = timed(plain_step, [(b, w) for b in (16, 64, 256) for w in (1, 2, 4)])
    history = History.of(JOB, Cluster(), [(ELSEWHERE, old)])
    (own,) = timed(lambda b, w: 3 * plain_step(b, w), [(32, 1)])
    alone = forecaster(JOB, history.blended([own]), Cluster(), accuracy=None)
    outlook = history.doubted(alone, [own])(CONFIGS, 5)
    truth = np.array([3 * plain_step(c.batch_size, c.workers) * 50_000 / c.global_batch for c in CONFIGS])
    assert np.abs(np.log(outlook.epoch_seconds / truth)).max() < 0.1
    assert outlook.spread[2] >= FACTOR_DOUBT
    assert "measured" not in set(outlook.seconds_source[1:])
    assert "with 1 config of its own: 9 samples of theirs on ray" in outlook.notes[-1]


def test_without_a_measurement_of_its_own_everything_is_assumed_and_wide() -> None:
    old = [*timed(plain_step, [(16, 1), (64, 2), (64, 4)]), *trained([32, 64])]
    history = History.of(JOB, Cluster(), [(ELSEWHERE, old)])
    outlook = history.doubted(forecaster(JOB, history.blended(()), Cluster()), ())(CONFIGS, 20)
    assert set(outlook.seconds_source) == {"assumed"}
    assert outlook.spread.min() >= UNKNOWN_DOUBT
    assert outlook.learning is not None
    assert "measured" not in set(outlook.learning.source)


def test_old_samples_make_way_for_own_ones() -> None:
    old = [replace(sample, epoch_seconds=9.0) for sample in trained([64, 128])]
    own = replace(trained([64], epochs=3)[0], epoch_seconds=5.0)
    history = History.of(JOB, Cluster(), [(replace(JOB, folder="/there"), old)])
    kept = history.blended([own])
    assert [sample.epoch_seconds for sample in kept if sample.config == own.config] == [5.0]
    assert sorted(sample.config.global_batch for sample in kept if sample.curve) == [64, 128]


def test_data_that_differ_say_nothing_of_accuracy_and_memory_elsewhere_nothing_of_memory_here() -> None:
    other = replace(JOB, examples=25_000)
    assert not any(s.curve for s in History.of(JOB, Cluster(), [(other, trained([64]))]).blended(()))
    full = Sample(Config.data_parallel(64, 1), failure=Failure("out of memory on rank 0", Cause.MEMORY))
    assert not History.of(JOB, Cluster(), [(ELSEWHERE, [full])])
    assert History.of(JOB, Cluster(), [(replace(JOB, folder="/there"), [full])]).blended(()) == [
        replace(full, purpose="probe")
    ]


def test_a_profile_begins_with_a_probe_of_its_own_and_then_leaves_out_what_is_known() -> None:
    space = Space((Axis("workers", (1, 2)), Axis("batch_size", (32, 64))))
    old = timed(plain_step, [(b, w) for b in (32, 64) for w in (1, 2)])
    history = History.of(JOB, Cluster(), [(ELSEWHERE, old)])
    design = Recalling(Design(JOB, Goal(epochs=1), space, Cluster()), history)
    first = design.next([], 8)
    assert first is not None
    assert design.next([Sample(first.config, 0.5, 1.0)], 7) is None
