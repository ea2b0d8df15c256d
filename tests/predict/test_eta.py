"""The ETA of a run is right once its pace is steady, whatever it began with, and says how far to trust it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.predict.countdown import Countdown, expected_end, seconds_left, usual_scatter
from cotune.types import Config, Evaluation, Quantity, Sample, Terms
from predict.worlds import JOB


def end(epochs: float) -> Quantity:
    return Quantity(epochs, epochs, epochs, "assumed")


CONFIG = Config.data_parallel(32, 2)


def trace(
    epochs: int,
    pace: float = 10.0,
    *,
    evaluation: float = 0.0,
    told: bool = True,
    startup: float = 5.0,
    warm: float = 0.0,
    noise: float = 0.0,
    first: float = 0.0,
    name: str = "a",
    seed: int = 0,
) -> list[Sample]:
    """The samples of a run that reports twenty times an epoch and evaluates after each."""
    rng = np.random.default_rng(seed)
    at, curve, found = startup, [], [Sample(CONFIG, first, seconds=startup, id=name)]
    for step in range(1, round((epochs - first) * 20) + 1):
        epoch = first + step / 20
        at += pace / 20 * float(np.exp(noise * rng.normal())) + (warm if step == 1 else 0.0)
        if step % 20 == 0:
            at += evaluation
            curve.append(Evaluation(epoch, 0.5, at))
        terms = Terms(evaluation=evaluation) if told and curve else Terms()
        found.append(Sample(CONFIG, epoch, pace, curve=tuple(curve), seconds=at, id=name, terms=terms))
    return found


def at_share(samples: list[Sample], share: float, epochs: int, before: Countdown | None = None) -> tuple[float, float]:
    """The seconds left that the ETA says when a share of a run has passed, and what they were."""
    countdown, whole = before or Countdown(), samples[-1].seconds
    for sample in samples:
        countdown.see(sample)
        if sample.seconds >= share * whole:
            break
    left = countdown.left(end(float(epochs)))
    assert left is not None
    assert left.low <= left.mid <= left.high
    return left.mid, whole - sample.seconds


@given(st.floats(0.1, 1000), st.floats(0, 100), st.sampled_from([0.05, 0.25, 0.5, 0.9]))
@settings(max_examples=40, deadline=None)
def test_a_steady_run_is_told_exactly(pace: float, startup: float, share: float) -> None:
    samples = trace(8, pace, startup=startup)
    if samples[1].seconds < share * samples[-1].seconds:
        expected, really = at_share(samples, share, 8)
        assert expected == pytest.approx(really, rel=1e-6, abs=1e-9)


def test_warm_up_is_forgotten() -> None:
    expected, really = at_share(trace(10, warm=30.0), 0.3, 10)
    assert expected == pytest.approx(really, rel=1e-6)


def test_evaluations_to_come_are_counted_apart() -> None:
    expected, really = at_share(trace(10, evaluation=8.0), 0.35, 10)
    assert expected == pytest.approx(really, rel=0.02)
    untold, really = at_share(trace(10, evaluation=8.0, told=False), 0.55, 10)
    assert untold == pytest.approx(really, rel=0.1)


def test_a_slow_first_evaluation_is_no_slow_training_once_others_are_known() -> None:
    took = (4.0, 0.5, 0.5)
    countdown = Countdown()
    countdown.see(Sample(CONFIG, 0.0, seconds=5.0, id="a"))
    countdown.see(Sample(CONFIG, 0.05, 10.0, seconds=5.5, id="a"))
    for done in (1, 2, 3):
        curve = tuple(Evaluation(float(one), 0.5, 0.0) for one in range(1, done + 1))
        usual = Terms(evaluation=float(np.median(took[:done])))
        seconds = 5 + 10.0 * done + sum(took[:done])
        countdown.see(Sample(CONFIG, float(done), 10.0, terms=usual, curve=curve, seconds=seconds, id="a"))
    left = countdown.left(end(10.0))
    assert left is not None
    assert left.mid == pytest.approx(7 * 10.5, rel=0.06)


def test_the_pace_on_a_gpu_is_trusted_less_and_more_so_on_a_crowded_host() -> None:
    assert usual_scatter(0.0, 4) < usual_scatter(0.0, 4, "gpu") < usual_scatter(16.0, 4, "gpu")


def test_a_resumed_start_leans_on_the_one_before_and_pays_no_start_up_twice() -> None:
    before, after = trace(10)[:60], trace(10, first=3.0, startup=40.0, name="b")
    countdown = Countdown()
    for sample in before:
        countdown.see(sample)
    assert countdown.left(end(10.0)) is not None
    countdown.see(after[0])
    at_once = countdown.left(end(10.0))
    assert at_once is not None
    assert (at_once.mid, at_once.source) == (pytest.approx(70.0), "assumed")
    expected, really = at_share(after[1:], 0.6, 10, countdown)
    assert expected == pytest.approx(really, rel=1e-6)


def test_another_config_begins_without_what_was_seen() -> None:
    countdown = Countdown()
    for sample in trace(3):
        countdown.see(sample)
    moved = replace(trace(3, name="b")[0], config=Config.data_parallel(16, 4))
    countdown.see(moved)
    assert countdown.left(end(10.0)) is None


def test_nothing_is_said_before_the_pace_is_known_and_nothing_is_left_at_the_end() -> None:
    countdown = Countdown()
    assert countdown.left(end(3.0)) is None
    samples = trace(3)
    countdown.see(samples[0])
    assert countdown.left(end(3.0)) is None
    for sample in samples[1:]:
        countdown.see(sample)
    done = countdown.left(end(3.0))
    assert done is not None
    assert (done.low, done.mid, done.high) == (0.0, 0.0, 0.0)


def test_error_and_interval_shrink_as_the_run_goes_on_and_four_of_five_intervals_hold() -> None:
    errors: dict[float, list[float]] = {share: [] for share in (0.05, 0.25, 0.5)}
    held: list[bool] = []
    for seed in range(60):
        samples = trace(10, noise=0.5, evaluation=1.0, seed=seed)
        for share, found in errors.items():
            countdown = Countdown()
            passed = [sample for sample in samples if sample.epochs <= share * 10]
            for sample in passed:
                countdown.see(sample)
            left = countdown.left(end(10.0))
            assert left is not None
            really = samples[-1].seconds - passed[-1].seconds
            found.append(abs(left.mid - really) / samples[-1].seconds)
            held.append(left.low <= really <= left.high)
    means = [float(np.mean(found)) for found in errors.values()]
    assert means[0] > means[1] > means[2]
    assert 0.75 <= np.mean(held) <= 0.97


def test_the_end_of_a_run_is_where_its_curve_meets_the_target() -> None:
    curve = tuple(Evaluation(e, 0.95 - 1 / (0.5 * e + 1.5), 10.0 * e + 5) for e in range(1, 9))
    sample = Sample(CONFIG, 8.0, 10.0, curve[-1].accuracy, curve=curve, seconds=85.0, id="a")
    met, beyond = curve[4].accuracy, 0.95 - 1 / (0.5 * 20 + 1.5)
    asked = [(30, met), (30, beyond), (12, beyond), (30, 0.99), (30, None)]
    ends = [expected_end(JOB, sample, epochs=epochs, target=target, plan=None) for epochs, target in asked]
    assert [end.epochs.mid for end in ends] == [8, pytest.approx(20, abs=1), 12, 30, 30]
    assert [bool(end.doubt) for end in ends] == [False, False, False, True, False]
    assert "levels off" in ends[3].doubt


def test_a_stored_sample_alone_tells_what_is_left() -> None:
    whole = trace(10, evaluation=2.0)
    sample = next(sample for sample in whole if sample.epochs == 6.0)
    left = seconds_left(JOB, sample, epochs=10, target=None, plan=None)
    assert left is not None
    assert left.mid == pytest.approx(whole[-1].seconds - sample.seconds, rel=0.03)
    early = seconds_left(JOB, replace(whole[3], curve=()), epochs=10, target=None, plan=None)
    assert early is not None
    assert early.mid == pytest.approx(100, rel=0.05)
    assert seconds_left(JOB, replace(sample, epoch_seconds=None), epochs=10, target=None, plan=None) is None


def test_a_run_that_is_evaluated_now_and_then_does_not_end_before_its_next_evaluation() -> None:
    """Where 2.6 s lay between two evaluations, 0.09 s were told as what may be left."""
    countdown = Countdown()
    for sample in trace(8, pace=2.6):
        countdown.see(sample)
    left = countdown.left(Quantity(9.0, 10.0, 60.0, "measured"))
    assert left is not None
    assert 0.8 * 2.6 < left.low < 2.6 <= left.mid / 2 * 1.01
    assert left.high > 5 * left.mid
    fourth = Sample(CONFIG, 8.5, 1.0, curve=(Evaluation(4.0, 0.1, 4.0), Evaluation(8.0, 0.2, 8.0)), seconds=8.5)
    assert expected_end(JOB, fourth, epochs=40, target=0.99, plan=None).epochs.low in {12.0, 40.0}
