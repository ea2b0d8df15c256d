"""The spread between runs: in every forecast, shrinking with repeats and with nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.forecast import standard_draws
from cotune.plan.assess import assess
from cotune.predict.learn import forecaster
from cotune.predict.luck import PRIOR, luck
from cotune.predict.samples import curves
from cotune.space import Configs
from cotune.types import Z90, Cluster, Config, Evaluation, Goal, Job, Sample

JOB = Job("made-up", examples=10_000)


def run(batch: int, pace: float = 1.0, epochs: int = 12, noise: float = 0.0, seed: int = 0) -> Sample:
    """Return a start whose curve is as quick as its pace says."""
    rng = np.random.default_rng(seed)
    values = 0.95 - 0.6 / (1 + pace * np.arange(1, epochs + 1)) ** 0.8 + noise * rng.normal(size=epochs)
    curve = tuple(Evaluation(float(epoch), float(value), float(epoch)) for epoch, value in enumerate(values, 1))
    return Sample(
        Config.data_parallel(batch, 1), float(epochs), 1.0, curve[-1].accuracy, curve=curve, seconds=float(epochs)
    )


def test_before_any_curve_one_run_needs_the_margins_of_all_kinds_of_jobs() -> None:
    found = luck([])
    margins = [np.expm1(found.scatter.quantile(share, 1)) for share in (0.8, 0.9, 0.95)]
    np.testing.assert_allclose(margins, (0.05, 0.11, 0.21), atol=0.01)


def test_bent_draws_keep_their_order_their_median_and_their_tenth_parts() -> None:
    normal, _ = standard_draws(2000, 0)
    bent = luck([]).draws(normal)
    order = np.argsort(normal)
    assert np.all(np.diff(bent[order]) >= 0)
    assert np.quantile(bent, 0.5) == pytest.approx(0.0, abs=0.01)
    assert np.quantile(bent, [0.1, 0.9]) == pytest.approx([-Z90, Z90], abs=0.03)
    assert np.mean(bent < -10) == pytest.approx(PRIOR.never, abs=0.002)
    assert np.quantile(bent, 0.97) > np.quantile(normal, 0.97) * 1.2


def test_repeats_that_end_together_or_apart_tell_the_variance_between_runs() -> None:
    one = luck(curves(JOB, [run(64, noise=0.01)]))
    alike = luck(curves(JOB, [run(64, pace, noise=0.01) for pace in (0.98, 1.0, 1.02)]))
    apart = luck(curves(JOB, [run(64, pace, noise=0.01) for pace in (0.7, 1.0, 1.4)]))
    assert alike.scatter.sigma < one.scatter.sigma < apart.scatter.sigma
    assert alike.deviation(3) < one.deviation(1) < apart.deviation(3)


def test_a_smooth_run_is_nearer_to_the_next_than_runs_usually_are_and_a_rough_one_further() -> None:
    sigmas = [luck(curves(JOB, [run(64, epochs=24, noise=n)])).scatter.sigma for n in (0.001, 0.003, 0.01, 0.03)]
    assert sigmas == sorted(sigmas)
    few = luck(curves(JOB, [run(64, epochs=5)])).scatter.sigma
    assert sigmas[0] < few < luck([]).scatter.sigma < sigmas[-1]


def fall_at_the_end(samples: list[Sample], batch: int, epochs: int = 20) -> float:
    """Return how far below its median the best so far of a batch may lie in the end."""
    learning = forecaster(JOB, samples, Cluster())(Configs.of([Config.data_parallel(batch, 1)]), epochs).learning
    assert learning is not None
    return float(learning.fall[0, -1])


def test_where_short_probes_lie_apart_they_differ_in_pace_and_the_plateau_is_no_less_sure() -> None:
    """Repeats of two epochs were 50 points apart where every run ended within one: plans of it were refused."""
    long = run(64, epochs=20)
    probes = [run(64, pace, epochs=2) for pace in (0.2, 5.0)]
    assert fall_at_the_end([long, *probes], 64) < 0.02 < abs(probes[0].curve[0].accuracy - probes[1].curve[0].accuracy)


def test_a_batch_that_learns_roughly_leaves_others_their_calm() -> None:
    calm, rough = run(64, epochs=20, noise=0.001), run(512, epochs=20, noise=0.08, seed=1)
    assert fall_at_the_end([calm, rough], 64) < fall_at_the_end([calm, rough], 512)


def test_a_target_that_one_probe_met_is_met_again_by_then_in_about_half_of_all_runs() -> None:
    probe = run(64, epochs=10)
    target = probe.accuracy
    assert target is not None
    for engine in ("local", "recorded"):
        outlook = forecaster(JOB, [replace(probe, engine=engine)], Cluster())(Configs.of([probe.config]), 40)
        by_then = assess(outlook, Goal(target, max_epochs=10), Cluster(), 1).probability[0]
        later = assess(outlook, Goal(target, max_epochs=40), Cluster(), 1).probability[0]
        assert 0.3 <= by_then <= 0.7
        assert later > by_then


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from((16, 64, 256)), min_size=1, max_size=3, unique=True),
    st.floats(0.5, 2.0),
    st.integers(4, 20),
    st.floats(0.0, 0.01),
    st.floats(0.3, 1.0),
)
def test_one_seed_is_never_sure_and_accuracy_never_told_closer_than_runs_lie(
    batches: list[int], pace: float, epochs: int, noise: float, part: float
) -> None:
    samples = [run(batch, pace, epochs, noise, seed=batch) for batch in batches]
    target = float(np.quantile([point.accuracy for point in samples[0].curve], part))
    outlook = forecaster(JOB, samples, Cluster())(Configs.of([samples[0].config]), 60)
    found = assess(outlook, Goal(target, max_epochs=60), Cluster(), 1)
    assert found.probability[0] < 0.995
    learning = outlook.learning
    assert learning is not None
    spread = luck(curves(JOB, samples)).deviation(1)
    for epoch in range(2, epochs - 1):
        law = learning.evaluation[0]
        apart = np.interp(np.log(epoch) + Z90 * spread, np.log(np.arange(1, 61)), np.maximum.accumulate(law))
        assert learning.spread[0, epoch - 1] * Z90 >= 0.99 * (apart - np.maximum.accumulate(law)[epoch - 1])
