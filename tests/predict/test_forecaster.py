from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune.errors import UsageError
from cotune.forecast import Learning, Outlook
from cotune.plan.assess import assess
from cotune.predict import TooFewSamples
from cotune.predict.learn import _times_alone, forecaster
from cotune.space import Axis, Configs, Space
from cotune.types import (
    Z90,
    Cause,
    Cluster,
    Config,
    Device,
    Evaluation,
    Failure,
    Floats,
    Goal,
    Job,
    Sample,
    Terms,
    axes_of,
)
from predict.worlds import EXAMPLES_OF, JOB, accuracy, grid, placements, plain_step, timed, trained

CLUSTER = Cluster()
WIDE = 1.2816  # standard deviations on each side that hold 80 %


def _outlook(samples: list[Sample], *configs: Config, job: Job = JOB, max_epochs: int = 20) -> Outlook:
    return forecaster(job, samples, CLUSTER)(Configs.of(configs), max_epochs)


def _learning(samples: list[Sample], *configs: Config, max_epochs: int = 20) -> Learning:
    found = _outlook(samples, *configs, max_epochs=max_epochs).learning
    assert found is not None
    return found


def _middle(learning: Learning, recipe: int) -> Floats:
    return np.asarray(np.median(learning.shown[recipe], axis=0))


def _spread(learning: Learning) -> Floats:
    """Return half of what 68 % of the draws lie within, of each recipe and evaluation."""
    low, high = np.quantile(learning.shown, (0.16, 0.84), axis=1)
    return np.asarray(high - low) / 2


def test_sources_say_where_seconds_come_from() -> None:
    outlook = _outlook(
        timed(plain_step, grid(workers=(1, 2, 4))),
        Config.data_parallel(32, 2),
        Config.data_parallel(48, 3),
        Config.data_parallel(48, 8),
    )
    assert list(outlook.seconds_source) == ["measured", "interpolated", "extrapolated"]
    assert np.all(np.diff(outlook.spread) > 0)


def test_accuracy_is_measured_up_to_the_end_of_a_curve_and_extrapolated_beyond() -> None:
    samples = [*timed(plain_step, grid()), *trained([64, 128], epochs=10)]
    outlook = forecaster(JOB, samples, Cluster((Device(),)))(Configs.of([Config.data_parallel(64, 1)]), 40)
    goals = (Goal(accuracy(64, epoch), max_epochs=40) for epoch in (5, 25))
    early, late = (assess(outlook, goal, Cluster((Device(),)), 1) for goal in goals)
    quantities = [early.forecast(0).accuracy, early.forecast(0).seconds, late.forecast(0).accuracy]
    assert [quantity.source for quantity in quantities if quantity] == ["measured", "measured", "extrapolated"]


def test_one_sample_is_assumed_to_scale_as_is_usual_and_says_so() -> None:
    samples = timed(plain_step, [(64, 1)])
    few, more, small = (Config.data_parallel(64, 1), Config.data_parallel(64, 4), Config.data_parallel(16, 4))
    outlook = _outlook(samples, few, more, small)
    assert list(outlook.seconds_source) == ["measured", "assumed", "assumed"]
    alone, perfect = outlook.epoch_seconds[0], outlook.epoch_seconds[0] / 4
    assert perfect < outlook.epoch_seconds[1] < alone
    assert outlook.epoch_seconds[2] > 1.5 * outlook.epoch_seconds[1]  # starting a step and the network cost more often
    assert outlook.spread[1:].min() > 0.4
    assert "one config measured" in outlook.notes[0]


def test_a_measured_config_stays_close_to_its_measurement() -> None:
    samples = timed(plain_step, grid(), noise=0.01)
    odd = replace(samples[5], epoch_seconds=1.5 * (samples[5].epoch_seconds or 0))
    outlook = _outlook([*samples[:5], odd, *samples[6:]], odd.config)
    assert outlook.epoch_seconds[0] == pytest.approx(odd.epoch_seconds, rel=0.1)


def test_nothing_measured_is_refused_with_what_to_do() -> None:
    with pytest.raises(TooFewSamples, match="cotune profile"):
        forecaster(JOB, [], CLUSTER)


def test_a_predictor_of_the_other_quantity_is_refused() -> None:
    samples = trained([16, 64])
    with pytest.raises(UsageError, match="does not predict time"):
        forecaster(JOB, samples, CLUSTER, predictor="posterior")
    with pytest.raises(UsageError, match="does not predict accuracy"):
        forecaster(JOB, samples, CLUSTER, accuracy="gaussian")


def test_a_file_that_is_no_prior_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "prior.json").write_text('{"names": ["rise"]}')
    with pytest.raises(UsageError, match=r"prior\.json is no prior of learning curves"):
        forecaster(JOB, trained([16, 64]), CLUSTER, accuracy=f"posterior(prior='{tmp_path}/prior.json')")


def test_without_curves_there_is_no_accuracy() -> None:
    assert _outlook(timed(plain_step, grid()), Config.data_parallel(32, 2)).learning is None
    recipe = forecaster(JOB, trained([16, 64]), CLUSTER, accuracy=None)
    assert recipe(Configs.of([Config.data_parallel(16, 1)]), 5).learning is None


def test_configs_of_one_global_batch_share_a_learning_curve() -> None:
    learning = _learning(
        trained([16, 64, 256]),
        Config.data_parallel(64, 1),
        Config.data_parallel(16, 4),
        Config.data_parallel(16, 2, accumulate=2),
        Config.data_parallel(128, 1),
        Config.data_parallel(256, 4),
    )
    assert len(set(learning.recipe[:3].tolist())) == 1
    assert learning.source[learning.recipe[2:]].tolist() == ["measured", "interpolated", "extrapolated"]
    assert _middle(learning, learning.recipe[3])[9] == pytest.approx(accuracy(128, 10), abs=0.01)


def test_accuracy_is_less_sure_after_the_curves_and_between_them() -> None:
    learning = _learning(
        trained([16, 64, 256], epochs=10, noise=0.005),
        Config.data_parallel(64, 1),
        Config.data_parallel(128, 1),
        Config.data_parallel(1024, 1),
        max_epochs=40,
    )
    assert np.all(np.diff(_spread(learning)[:, 9]) > 0)
    slope = np.gradient(_middle(learning, 0), np.log(np.arange(1, 41)))
    in_epochs = _spread(learning)[0] / slope
    assert np.all(in_epochs[[19, 39]] > in_epochs[9])


def test_a_run_that_is_out_of_luck_takes_more_epochs_and_never_falls_back() -> None:
    """A curve that levels off after its end: time will do, however unlucky a run is, and nothing is unlearnt."""
    shown = trained([16, 64, 256], epochs=10, value=lambda _, epoch: 0.9 - 0.5 * 0.7**epoch)
    target = shown[1].curve[7].accuracy
    learning = _learning(shown, Config.data_parallel(64, 1), max_epochs=40)
    unlucky = learning.surely(0.9)[0]
    assert unlucky[7] < target < unlucky[39]
    assert np.all(np.diff(learning.best, axis=2) >= 0)


def test_larger_batches_are_expected_to_take_more_epochs_while_one_was_measured() -> None:
    for epochs in (1, 12):
        shown = trained([64], epochs=epochs)
        goal = Goal(target=shown[0].curve[-1].accuracy, max_epochs=100)
        batches = [Config.data_parallel(batch, 1) for batch in (64, 256, 1024)]
        found = assess(_outlook(shown, *batches, max_epochs=100), goal, CLUSTER, 1)
        middle = np.median(found.needed, axis=1)
        assert middle[0] <= epochs + 1
        assert np.all(np.diff(middle) >= 0)
        assert middle[-1] > middle[0]


def test_out_of_memory_rules_out_larger_batches_of_the_same_kind_only() -> None:
    failed = Sample(Config.data_parallel(128, 2), failure=Failure("CUDA out of memory at rank 1", Cause.MEMORY))
    outlook = _outlook(
        [*timed(plain_step, grid(batches=(16, 32, 64))), failed],
        Config.data_parallel(64, 2),
        Config.data_parallel(128, 1),
        Config.data_parallel(256, 4),
        Config.data_parallel(128, 1, "other"),
    )
    assert np.isfinite(outlook.epoch_seconds).tolist() == [True, False, False, True]
    assert any("ran out of memory" in note for note in outlook.notes)


def test_a_config_that_crashed_is_ruled_out_alone_and_until_it_has_run() -> None:
    samples = timed(plain_step, grid(batches=(16, 32, 128)))
    crashed = Sample(Config.data_parallel(64, 2), failure=Failure("rank 0 crashed: ValueError"))
    asked = [Config.data_parallel(64, 2), Config.data_parallel(64, 1), Config.data_parallel(128, 2)]
    outlook = _outlook([*samples, crashed], *asked)
    assert np.isfinite(outlook.epoch_seconds).tolist() == [False, True, True]
    assert any("having failed" in note for note in outlook.notes)
    again = replace(samples[0], config=crashed.config)
    assert np.isfinite(_outlook([*samples, crashed, again], *asked).epoch_seconds).all()


def test_several_workers_are_ruled_out_where_each_trains_alone() -> None:
    apart = Sample(Config.data_parallel(16, 2), failure=Failure("2 workers never met", Cause.APART))
    alone = timed(plain_step, grid(workers=(1,)))
    outlook = _outlook([*alone, apart], Config.data_parallel(64, 1), Config.data_parallel(32, 4))
    assert np.isfinite(outlook.epoch_seconds).tolist() == [True, False]


def test_other_failures_say_nothing_of_speed() -> None:
    samples = timed(plain_step, grid())
    crashed = replace(samples[0], failure=Failure("exit code 1"), epoch_seconds=1e-3)
    with_crash, without = _outlook([*samples, crashed], samples[0].config), _outlook(samples, samples[0].config)
    assert with_crash.epoch_seconds == pytest.approx(without.epoch_seconds)


def test_terms_are_paid_apart() -> None:
    samples = [
        replace(sample, terms=Terms(startup=1 + 0.5 * sample.config.workers, evaluation=0.2, checkpoint=0.1))
        for sample in timed(plain_step, grid())
    ]
    outlook = _outlook(samples, Config.data_parallel(32, 1), Config.data_parallel(32, 16))
    np.testing.assert_allclose(outlook.startup, [1.5, 9.0])
    np.testing.assert_allclose(outlook.overhead, [0.3, 0.3])


def test_named_axes_are_factors_on_one_law() -> None:
    def of(precision: str, factor: float, samples: list[Sample]) -> list[Sample]:
        axes = axes_of({"precision": precision})
        return [
            replace(s, config=replace(s.config, axes=axes), epoch_seconds=factor * (s.epoch_seconds or 0))
            for s in samples
        ]

    truth = timed(plain_step, grid())
    outlook = _outlook(
        of("fp32", 1.0, truth) + of("bf16", 0.5, truth[:3]),
        Config.data_parallel(128, 8, axes=axes_of({"precision": "bf16"})),
        Config.data_parallel(128, 8, axes=axes_of({"precision": "fp8"})),
    )
    expected = 0.5 * (truth[-1].epoch_seconds or 0)
    assert outlook.epoch_seconds[0] == pytest.approx(expected, rel=0.15)
    assert list(outlook.seconds_source) == ["extrapolated", "assumed"]
    assert outlook.spread[1] > 2 * outlook.spread[0]


def test_a_batch_of_nothing_takes_for_ever() -> None:
    space = Space((Axis("workers", (1, 3)),), global_batch=64)
    outlook = forecaster(JOB, timed(plain_step, grid()), CLUSTER)(space.configs(), 5)
    assert np.isfinite(outlook.epoch_seconds).tolist() == [True, False]


def test_the_same_seed_gives_the_same_outlook() -> None:
    samples = trained([16, 64, 256], noise=0.01)
    first, second = (_outlook(samples, Config.data_parallel(64, 2)) for _ in range(2))
    np.testing.assert_array_equal(first.z_time, second.z_time)
    assert first.learning is not None
    assert second.learning is not None
    np.testing.assert_array_equal(first.learning.best, second.learning.best)


def test_the_draws_of_time_have_their_median_at_zero_and_say_nothing_of_accuracy() -> None:
    samples = trained([16, 64, 256], noise=0.02)
    outlook = forecaster(JOB, samples, CLUSTER)(Configs.of([samples[0].config]), 20)
    assert outlook.learning is not None
    assert np.quantile(outlook.z_time, [0.5, 0.9]) == pytest.approx([0.0, Z90], abs=0.1)
    shown = outlook.learning.shown[0].T
    assert len(shown[0]) == outlook.draws
    assert np.abs([np.corrcoef(outlook.z_time, one)[0, 1] for one in shown]).max() < 0.25


def test_eighty_per_cent_intervals_hold_about_that_often() -> None:
    pairs = grid((8, 16, 24, 32, 48, 64, 96, 128, 256), (1, 2, 3, 4, 6, 8))
    inside = []
    for seed in range(12):
        samples = timed(plain_step, pairs, noise=0.08, seed=seed)
        order = np.random.default_rng(seed).permutation(len(samples))
        seen, unseen = [samples[place] for place in order[:12]], [samples[place] for place in order[12:]]
        outlook = _outlook(seen, *(sample.config for sample in unseen))
        off = np.log(outlook.epoch_seconds / [sample.epoch_seconds for sample in unseen])
        inside += (np.abs(off) < WIDE * outlook.spread).tolist()
    assert 0.70 <= np.mean(inside) <= 0.95


@pytest.mark.parametrize("application", EXAMPLES_OF)
def test_intervals_hold_on_real_placements(application: str) -> None:
    measured = placements(application)
    job = Job(application, examples=EXAMPLES_OF[application])
    inside = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(measured))
        seen, unseen = [measured[place] for place in order[:16]], [measured[place] for place in order[16:]]
        cluster = Cluster((Device("t4", per_node=4),))
        outlook = forecaster(job, seen, cluster)(Configs.of([sample.config for sample in unseen]), 1)
        off = np.log(outlook.epoch_seconds / [sample.epoch_seconds for sample in unseen])
        inside += (np.abs(off) < WIDE * outlook.spread).tolist()
    assert 0.60 <= np.mean(inside) <= 0.97


def test_no_draw_of_an_accuracy_passes_one() -> None:
    curve = tuple(Evaluation(epoch, 1 - 0.5 / epoch**2, float(epoch)) for epoch in range(1, 9))
    samples = [Sample(Config.data_parallel(batch, 1), 8, 1.0, curve[-1].accuracy, curve=curve) for batch in (16, 64)]
    outlook = forecaster(Job("made-up", examples=1000), samples, Cluster())(Configs.of([samples[0].config]), 30)
    assert outlook.learning is not None
    assert outlook.learning.shown.max() <= 1.0
    forecast = assess(outlook, Goal(max_epochs=30), Cluster(), 1).forecast(0)
    assert forecast.accuracy is not None
    assert forecast.accuracy.high <= 1.0
    assert assess(outlook, Goal(target=1.01), Cluster(), 1).probability[0] == 0.0


def test_the_best_so_far_lies_above_what_one_evaluation_shows() -> None:
    samples = trained([16, 64, 256], epochs=30, noise=0.01)
    learning = _learning(samples, Config.data_parallel(128, 1), max_epochs=60)
    assert np.all(learning.best >= learning.shown)
    assert np.median(learning.best[0, :, -1]) > _middle(learning, 0)[-1]
    assert _middle(learning, 0)[29] == pytest.approx(accuracy(128, 30), abs=0.01)


def test_a_short_curve_says_nothing_of_the_epochs_that_a_longer_one_reached() -> None:
    short, long = trained([64], epochs=3)[0], trained([64], epochs=12)[0]
    alone, both = (_learning(samples, long.config, max_epochs=12) for samples in ([long], [short, long]))
    assert _middle(both, 0) == pytest.approx(_middle(alone, 0), abs=0.01)


def test_a_run_that_goes_on_from_a_probe_has_its_past_for_certain() -> None:
    shown = enumerate(trained([16, 64, 256], noise=0.01))
    probes = [replace(sample, id=str(place), seconds=1.0, engine="recorded") for place, sample in shown]
    target = probes[1].curve[9].accuracy
    first = next(point.epoch for point in probes[1].curve if point.accuracy >= target)
    outlook = _outlook(probes, Config.data_parallel(64, 1))
    goal = Goal(target=target, max_epochs=20)
    scratch, going_on = (
        assess(replace(outlook, learning=learning), goal, CLUSTER, 1).needed
        for learning in (outlook.learning, outlook.continued)
    )
    assert np.all(going_on == first)
    assert not np.all(scratch == first)
    assert _outlook([replace(probe, engine="local") for probe in probes], Config.data_parallel(64, 1)).continued is None


def test_a_recording_of_several_seeds_judges_a_run_by_all_of_them() -> None:
    shown = enumerate(trained([16, 64, 256], noise=0.01))
    probes = [replace(sample, id=str(place), seconds=1.0, engine="recorded") for place, sample in shown]
    recipe = Configs.of([Config.data_parallel(64, 1)])
    alone, several = (forecaster(replace(JOB, seeds=seeds), probes, CLUSTER)(recipe, 20) for seeds in (1, 3))
    assert alone.continued is not None
    assert several.continued is None
    assert several.learning is not None
    assert np.ptp(several.learning.shown[0, :, 9]) > 0 == np.ptp(alone.continued.shown[0, :, 9])


def test_where_training_went_on_unseen_no_target_is_met_any_more() -> None:
    shown = trained([16, 64, 256])
    beyond = shown[1].curve[-1].accuracy + 1e-3
    goal = Goal(target=beyond, max_epochs=40)
    for epochs, silent in ((20.0, False), (30.0, True)):
        samples = [shown[0], replace(shown[1], id="one", epochs=epochs, seconds=1.0, engine="recorded"), shown[2]]
        outlook = _outlook(samples, Config.data_parallel(64, 1), max_epochs=40)
        found = assess(replace(outlook, learning=outlook.continued), goal, CLUSTER, 1)
        assert bool(np.isinf(found.needed).all()) == silent


def test_the_best_of_a_batch_is_shared_with_those_beside_it() -> None:
    """A plateau that was never passed at one batch is not expected to be passed at the next."""
    shown = trained([100], epochs=60, value=lambda _, epoch: 0.9 - 0.5 * 0.8**epoch, noise=0.004)
    best = max(point.accuracy for point in shown[0].curve)
    own, beside = (
        np.median(_learning(shown, Config.data_parallel(batch, 1), max_epochs=60).best[0, :, -1])
        for batch in (100, 101)
    )
    assert own == pytest.approx(best, abs=0.006)  # of which a part is luck
    assert beside == pytest.approx(best, abs=0.006)


def test_many_repeats_of_a_config_tell_no_more_than_their_median() -> None:
    few = timed(plain_step, grid())
    for count in (30, 31):
        spread = [replace(few[0], epoch_seconds=few[0].epoch_seconds * (1 + 0.01 * turn)) for turn in range(count)]  # type: ignore[operator]
        kept = [sample.epoch_seconds for sample in _times_alone([*spread, *few[1:]]) if sample.config == few[0].config]
        assert len(kept) <= 10
        assert np.median(kept) == np.median([sample.epoch_seconds for sample in spread])


def test_hundreds_of_curves_are_learnt_much_like_a_few() -> None:
    times, batches = timed(plain_step, grid()), [16, 64, 256, 1024]
    config = Config.data_parallel(128, 1)
    some, many = (_middle(_learning([*times, *trained(batches) * count], config), 0) for count in (1, 150))
    np.testing.assert_allclose(some, many, atol=0.03)


def _of_batch(value: float, batch: int, count: int) -> list[Sample]:
    return [replace(sample, accuracy=value) for sample in trained([batch], epochs=count, value=lambda *_: value)]


@pytest.mark.parametrize(
    "samples",
    [
        timed(plain_step, grid(workers=(1,))),
        timed(plain_step, grid(batches=(64,))),
        timed(plain_step, [(64, 1)]) * 3,
        _of_batch(0.1, 64, 5),
        _of_batch(0.0, 64, 1),
        trained([64], epochs=1),
        [*trained([16, 64]), Sample(Config.data_parallel(512, 1), failure=Failure("out of memory", Cause.MEMORY))],
        trained([16, 64, 256], value=lambda _, epoch: 0.9 - 0.04 * epoch),
        trained([16, 64], value=lambda batch, epoch: math.nan if batch == 16 or epoch < 3 else 0.1 * epoch, epochs=8),
        trained([16, 64], value=lambda _, epoch: -math.inf if epoch == 4 else math.inf if epoch == 5 else 0.1 * epoch),
        trained([64], value=lambda *_: math.nan),
        [*timed(plain_step, grid()), Sample(Config.data_parallel(64, 1), 0.0, 1.0, 0.3)],
    ],
    ids=[
        *("one-worker", "one-batch", "repeats", "flat", "nothing-learnt", "one-point", "failed", "falling"),
        *("some-nan", "infinite", "only-nan", "no-epochs"),
    ],
)
def test_nothing_degenerates(samples: list[Sample]) -> None:
    space = Space((Axis("workers", (1, 2, 3, 4, 8)), Axis("batch_size", (16, 24, 64, 256)))).configs()
    outlook = forecaster(JOB, samples, Cluster())(space, 10)
    possible = np.isfinite(outlook.epoch_seconds)
    assert possible.any()
    assert np.all(outlook.epoch_seconds[possible] > 0)
    assert np.all(np.isfinite(outlook.spread) & (outlook.spread > 0))
    if outlook.learning is not None:
        assert np.all(np.isfinite(outlook.learning.shown))
        assert np.all(np.ptp(outlook.learning.shown[:, :, -1], axis=1) > 0)


def test_a_curve_that_only_falls_is_not_expected_to_come_back_to_its_first_evaluation() -> None:
    falling = trained([16, 64, 256], value=lambda _, epoch: 0.9 - 0.04 * epoch, epochs=10)
    outlook = forecaster(JOB, falling, Cluster())(Configs.of([Config.data_parallel(64, 1)]), 30)
    assert outlook.learning is not None
    assert _middle(outlook.learning, 0)[10:].max() < 0.9 - 0.04 * 4
    assert np.median(outlook.learning.best[0], axis=0) == pytest.approx(0.9 - 0.04, abs=0.02)  # its best was the first
