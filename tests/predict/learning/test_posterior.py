"""The posterior of learning curves, held against simulation, brute force and what must be true of any forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cotune.predict.learning import CurvePrior, JobFacts, Posterior, Run, first_met
from cotune.predict.learning.family import NAMES
from cotune.predict.learning.job_runs import rung_of
from cotune.predict.learning.observations import POINTS_OF_RUN, Observations
from cotune.predict.learning.sampler import likelihood
from cotune.predict.learning.schedules import CONSTANT, Shape, candidates, travelled

EPOCHS = np.arange(1.0, 9.0)
FACTS = JobFacts(1.0, 0.0, examples=50_000)


def curve(epochs: np.ndarray, end: float = 0.9) -> np.ndarray:
    return end - 0.5 * epochs**-0.7


def run(count: int = 8, batch: float = 64.0, noise: float = 0.003, seed: int = 0) -> Run:
    values = curve(EPOCHS) + noise * np.random.default_rng(seed).standard_normal(8)
    return Run(batch, EPOCHS[:count], values[:count])


def test_the_likelihood_is_that_of_the_joint_normal_distribution() -> None:
    seen = Observations([run(5), run(4, 256.0, seed=1)], JobFacts())
    theta = np.random.default_rng(0).normal(CurvePrior.first().weights[0], 0.3, (3, len(NAMES)))
    found = likelihood(theta, np.zeros(3, dtype=np.int64), seen)
    off = seen.value - seen.value.max() - found.mean
    direct = [
        multivariate_normal(cov=matrix, allow_singular=True).logpdf(one)
        for matrix, one in zip(found.covariance, off, strict=True)
    ]
    assert np.ptp(found.log - np.array(direct)) == pytest.approx(0.0, abs=1e-6), "equal up to a constant"


@pytest.mark.parametrize(
    "kind",
    [
        *("constant", "cosine", "linear", "one_cycle", "wsd(0.3)", "wsd", "step", "step(0.5,0.8)", None),
        *("step(3,6,factor=0.5) warmup(2)", "cosine warmup(0.1)", "wsd(0.2) warmup(1)", "constant warmup(3)"),
    ],
)
def test_progress_is_the_integral_of_the_rate(kind: str | None) -> None:
    shapes, shares = candidates(kind)
    assert shares.sum() == pytest.approx(1.0)
    epochs = np.linspace(0.01, 10.0, 4001)
    for shape in shapes:
        ln_progress, rate = travelled(shape, epochs, np.full(len(epochs), 10.0))
        warm = np.minimum(epochs / 3.0, 1.0) if kind == "one_cycle" else 1.0
        summed = np.cumsum(rate * warm) * (epochs[1] - epochs[0])
        assert np.exp(ln_progress[400:]) == pytest.approx(summed[400:], rel=0.02, abs=0.01)
        assert ((rate >= 0) & (rate <= 1)).all()
        assert (np.diff(rate) <= 1e-12).all(), "what is left to anneal never grows"


def test_a_schedule_named_with_its_numbers_has_one_shape() -> None:
    assert candidates("wsd(0.3)")[0] == (Shape("wsd", 0.3),)
    assert candidates("constant")[0] == (CONSTANT,)
    assert candidates("unknown")[0] == candidates(None)[0]
    (steps,), _ = candidates("step(30,60)")
    for length in (90.0, 200.0):
        _, rate = travelled(steps, np.array([29.0, 31.0, 61.0]), np.full(3, length))
        assert rate == pytest.approx([1.0, 0.1, 0.01]), "milestones are where they are, however long a run is"


def test_a_constant_rate_after_a_warm_up_does_not_count_as_one_that_falls() -> None:
    warm = Observations([run()], replace(FACTS, schedule="constant warmup(0.1)"))
    assert warm.features.tolist() == Observations([run()], FACTS).features.tolist()


@pytest.mark.parametrize("count", [3, 20, 21, 57, 1000])
def test_thinning_keeps_every_evaluation_and_its_mean(count: int) -> None:
    values = np.sort(np.random.default_rng(count).random(count))
    seen = Observations([Run(32.0, np.arange(1.0, count + 1), values)], FACTS)
    assert len(seen.value) <= POINTS_OF_RUN + 1
    assert seen.count.sum() == count
    assert seen.count @ seen.value == pytest.approx(values.sum())
    assert seen.count[[0, -1]] == pytest.approx([1, 1], abs=2), "blocks are short at both ends"


def test_a_diverged_value_does_not_set_the_scale() -> None:
    values = np.r_[-curve(EPOCHS), -4e7]
    seen = Observations([Run(32.0, np.arange(1.0, 10.0), values)], FACTS)
    assert seen.scale < 10 * np.ptp(values[:-1])


def test_values_on_a_coarse_grid_that_only_rise_are_a_ladder() -> None:
    ladder = Run(8.0, np.array([1.0, 2, 3, 7]), np.array([0.1, 0.25, 0.3, 0.35]))
    assert rung_of([ladder]) == 0.05
    assert rung_of([run()]) == 0.0
    paths = Posterior([ladder], JobFacts(1.0, 0.0, rung=0.05)).paths(8.0, np.arange(1.0, 30.0))
    assert (np.diff(paths, axis=1) >= 0).all()
    assert np.median(paths[:, 2]) >= 0.3, "a rung that was met lies below what the run reached"


def test_a_run_that_collapsed_is_evidence_of_collapses_and_not_of_what_others_learn() -> None:
    broken = Run(64.0, EPOCHS, np.r_[curve(EPOCHS[:5]), 0.1, 0.1, 0.1])
    whole = [run(batch=256.0, seed=1), run(batch=32.0, seed=2)]
    posterior, without = Posterior([broken, *whole], FACTS), Posterior([run(5), *whole], FACTS)
    assert posterior.seen.collapsed(64.0, None) == (0.5, 5.0), "one of one, and perhaps the next"
    ends = posterior.paths(64.0, EPOCHS, run=None)[:, -1]
    assert 0.35 < np.mean(ends < 0.5) < 0.65
    assert posterior.paths(64.0, EPOCHS, run=0)[:, -1].max() < 0.5, "it never comes back"
    others = [np.median(one.paths(256.0, EPOCHS)[:, -1]) for one in (posterior, without)]
    assert others[0] == pytest.approx(others[1], abs=0.02)


def test_a_run_that_met_a_goal_as_early_as_predicted_does_not_make_it_less_likely() -> None:
    """P is that of 400 draws under a sampled posterior, whose noise has a deviation of 0.03."""
    fallen, rng = [], np.random.default_rng(3)
    for case in range(12):
        shown = [run(int(rng.integers(3, 9)), noise=0.01, seed=case), run(8, 256.0, noise=0.01, seed=case + 50)]
        another = run(8, noise=0.01, seed=case + 100)
        needed = int(rng.integers(3, 8))
        target = float(another.values[:needed].max())
        before, after = (
            first_met(Posterior(runs, FACTS).paths(64.0, EPOCHS), EPOCHS, target)
            for runs in (shown, [*shown, another.until(needed)])
        )
        if EPOCHS[np.argmax(another.values >= target)] <= np.median(before):
            fallen += [(before <= by).mean() - (after <= by).mean() for by in EPOCHS[needed - 1 :]]
    assert len(fallen) >= 10
    assert np.mean(fallen) < 0
    assert max(fallen) < 0.1


def test_intervals_shrink_as_a_run_goes_on_and_hold_what_comes() -> None:
    truth, widths = curve(np.array([32.0]))[0], []
    for count in (3, 5, 8):
        low, high = np.quantile(Posterior([run(count)], FACTS).paths(64.0, np.array([32.0]), run=0), (0.05, 0.95))
        assert low <= truth <= high
        widths.append(high - low)
    assert widths[0] > widths[2]


def test_a_run_is_forecast_more_surely_than_another_seed_and_that_than_another_batch() -> None:
    posterior = Posterior([run()], FACTS)
    own, seed, batch = (
        np.ptp(np.quantile(posterior.paths(size, np.array([9.0]), run=number), (0.1, 0.9)))
        for size, number in ((64.0, 0), (64.0, None), (1024.0, None))
    )
    assert own < seed * 1.05
    assert seed < batch


def test_smooth_curves_say_that_seeds_differ_little() -> None:
    smooth, rough = (
        np.ptp(np.quantile(Posterior([run(noise=noise)], FACTS).paths(64.0, EPOCHS[-1:]), (0.1, 0.9)))
        for noise in (0.0005, 0.02)
    )
    assert smooth < rough


def test_no_draw_passes_a_ceiling_and_equal_questions_have_equal_answers() -> None:
    posterior = Posterior([run()], FACTS)
    paths = posterior.paths(64.0, np.arange(1.0, 200.0))
    assert paths.max() <= 1.0
    assert (paths == posterior.paths(64.0, np.arange(1.0, 200.0))).all()


def test_a_target_is_met_later_the_higher_it_is() -> None:
    epochs = np.arange(1.0, 40.0)
    paths = Posterior([run()], FACTS).paths(64.0, epochs)
    needed = [first_met(paths, epochs, target) for target in (0.6, 0.8, 0.95)]
    assert (needed[0] <= needed[1]).all()
    assert (needed[1] <= needed[2]).all()


def test_the_end_of_an_annealed_run_lies_above_what_its_middle_extrapolates_to() -> None:
    length = 40
    epochs = np.arange(1.0, length + 1)
    half = Run(64.0, epochs[:20], curve(epochs[:20], 0.7), float(length))
    ends = {
        schedule: np.median(
            Posterior([half], JobFacts(1.0, 0.0, schedule=schedule)).paths(64.0, epochs[-1:], length=40.0, run=0)
        )
        for schedule in ("constant", "wsd(0.4)")
    }
    assert ends["wsd(0.4)"] > ends["constant"]
