from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotune.predict.law import USUAL, Law, at_once, bubble, operations
from cotune.predict.predictors.gaussian import Gaussian
from cotune.probe.gain import ProbeGain
from cotune.space import Axis, Configs, Space
from cotune.types import Config, Sample, Value, axes_of
from predict.worlds import JOB, grid, plain_step, timed

BATCHES, WORKERS = (8, 16, 24, 32, 48, 64, 96, 128, 256), (1, 2, 3, 4, 6, 8)


def _chosen(configs: Configs, count: int, per_node: int | None = None, *, law: bool = True) -> list[int]:
    telling, rows = ProbeGain(configs, per_node, law), []
    for _ in range(count):
        gains = telling.gains(np.array(rows, dtype=np.int64))
        gains[rows] = -np.inf
        rows.append(int(np.argmax(gains)))
    return rows


def _miss(samples: list[Sample], seen: list[int], per_node: int | None = None) -> float:
    model = Gaussian(per_node).fit_seconds(JOB, [samples[row] for row in seen])
    unseen = [sample for row, sample in enumerate(samples) if row not in seen]
    predicted = model.predict(Configs.of([sample.config for sample in unseen]))
    return float(np.abs(predicted / [sample.epoch_seconds for sample in unseen] - 1).mean())


def test_eight_telling_samples_foresee_a_plain_law() -> None:
    samples = timed(plain_step, grid(BATCHES, WORKERS))
    assert _miss(samples, _chosen(Configs.of([sample.config for sample in samples]), 8)) < 0.02


def _crowded_step(batch: int, workers: int) -> float:
    """Return the seconds of a step of workers that share one host: each makes all of them slower."""
    return 0.002 * workers + 0.00001 * batch


def test_samples_that_tell_the_law_foresee_the_ends_of_a_grid() -> None:
    samples = timed(_crowded_step, grid((16, 24, 32, 48, 64, 96, 128, 192, 256, 512), range(1, 9)))
    configs = Configs.of([sample.config for sample in samples])
    rows = _chosen(configs, 8)
    assert {1, 8} <= {configs[row].workers for row in rows}
    assert _miss(samples, rows) < 0.06


def test_slopes_of_the_law_are_those_of_its_logarithm() -> None:
    configs = Configs.of(
        [
            Config.data_parallel(batch, workers, axes=axes_of({"sharding": way, "tensor": 2, "hidden": 64}))
            for batch, workers, way in ((8, 1, "none"), (64, 4, "full_shard"), (16, 16, "shard_grad_op"))
        ]
    )
    terms = Law.of(configs, 8).terms(configs)
    steps = 1e-5 * np.eye(len(USUAL))
    numeric = (terms.log(np.exp(USUAL + steps)) - terms.log(np.exp(USUAL - steps))) / 2e-5
    assert terms.slopes(np.exp(USUAL)[None])[0] == pytest.approx(numeric, abs=1e-6)


def test_telling_samples_beat_random_ones() -> None:
    samples = timed(plain_step, grid(BATCHES, WORKERS), noise=0.02)
    own = _miss(samples, _chosen(Configs.of([sample.config for sample in samples]), 8))
    random = [_miss(samples, np.random.default_rng(seed).permutation(len(samples))[:8].tolist()) for seed in range(8)]
    assert own < np.mean(random)


def test_a_node_border_is_a_step() -> None:
    def step(batch: int, workers: int) -> float:
        return 0.01 + 0.001 * batch + (0.2 if workers > 4 else 0.0)

    samples = timed(step, grid((16, 32, 64, 128), (1, 2, 3, 4, 5, 6, 7, 8)))
    seen = [row for row, s in enumerate(samples) if s.config.workers in (1, 4, 8) and s.config.batch_size in (16, 128)]
    model = Gaussian(per_node=4).fit_seconds(JOB, [samples[row] for row in seen])
    inside, across = model.predict(Configs.of([Config.data_parallel(32, 3), Config.data_parallel(32, 5)]))
    assert across > 2 * inside
    assert _miss(samples, seen, per_node=4) < _miss(samples, seen)


def _powered(limits: tuple[int, ...], batches: tuple[int, ...]) -> list[Sample]:
    return [
        replace(s, config=replace(s.config, axes=axes_of({"power_limit": watts})), epoch_seconds=s.epoch_seconds / f)
        for watts in limits
        for s in timed(plain_step, grid(batches, (1,)))
        if s.epoch_seconds is not None
        for f in [min(1.0, (watts / 250) ** 0.5)]
    ]


def test_a_numeric_axis_never_measured_lies_between_its_neighbours() -> None:
    samples = _powered((100, 150, 250, 300), (16, 64, 256))
    model = Gaussian().fit_seconds(JOB, samples)
    wished = [Config.data_parallel(64, 1, axes=axes_of({"power_limit": watts})) for watts in (150, 200, 250)]
    slow, between, fast = model.predict(Configs.of(wished))
    assert fast < between < slow
    assert between == pytest.approx(slow * (150 / 200) ** 0.5, rel=0.04)


def test_what_a_word_does_carries_over_to_other_batches() -> None:
    def of(word: Value, factor: float, batches: tuple[int, ...]) -> list[Sample]:
        return [
            replace(s, config=replace(s.config, axes=axes_of({"precision": word})), epoch_seconds=factor * seconds)
            for s in timed(plain_step, grid(batches, (1, 4)))
            if (seconds := s.epoch_seconds) is not None
        ]

    samples = of("fp32", 1.0, (16, 32, 64, 128)) + of("bf16", 0.5, (16, 128))
    model = Gaussian().fit_seconds(JOB, samples)
    truth = of("bf16", 0.5, (64,))
    predicted = model.predict(Configs.of([sample.config for sample in truth]))
    np.testing.assert_allclose(predicted, [sample.epoch_seconds for sample in truth], rtol=0.05)


def test_spread_grows_away_from_samples() -> None:
    model = Gaussian().fit_seconds(JOB, timed(plain_step, grid((16, 32, 64), (1, 2)), noise=0.02))
    wished = [Config.data_parallel(32, 2), Config.data_parallel(256, 2), Config.data_parallel(256, 16)]
    assert np.all(np.diff(model.outlook(Configs.of(wished))[1]) > 0)


def test_one_worker_alone_leaves_the_network_in_doubt() -> None:
    alone = timed(plain_step, grid((8, 16, 64, 256), (1,)))
    several = timed(plain_step, grid((8, 64), (4,)))
    many = Configs.of([Config.data_parallel(batch, 8) for batch in (8, 64)])
    unknown, known = (Gaussian().fit_seconds(JOB, seen).outlook(many)[1] for seen in (alone, [*alone, *several]))
    assert np.all(unknown > 1.15 * known)


def test_errors_left_out_are_those_of_fits_without_the_sample() -> None:
    samples = timed(plain_step, grid((16, 64, 256), (1, 2, 8)), noise=0.05)
    model = Gaussian().fit_seconds(JOB, samples)
    anew = [
        np.log(
            Gaussian().fit_seconds(JOB, [*samples[:row], *samples[row + 1 :]]).predict(Configs.of([sample.config]))[0]
            / (sample.epoch_seconds or 1)
        )
        for row, sample in enumerate(samples)
    ]
    assert np.corrcoef(model.errors, anew)[0, 1] > 0.8
    assert 0.4 < np.abs(model.errors).mean() / np.abs(anew).mean() < 1.5


def test_hundreds_of_samples_are_thinned_and_still_learnt_from() -> None:
    samples = timed(plain_step, grid(tuple(range(8, 400, 8)), (1, 2, 3, 4, 6, 8, 12, 16)), noise=0.02)
    assert len(samples) > 300
    assert _miss(samples, [*range(0, len(samples), 2), 1]) < 0.03


def test_a_pipeline_idles_while_it_fills_and_workers_share_micro_batches() -> None:
    axes = axes_of({"tensor": 2, "pipeline": 4, "micro_batch": 8})
    configs = Configs.of([Config.data_parallel(4, 16, axes=axes), Config.data_parallel(4, 16)])
    np.testing.assert_allclose(at_once(configs), [1.0, 4.0])
    np.testing.assert_allclose(bubble(configs), [1 + 3 / 4, 1.0])


def test_operations_follow_parameters_and_sequence_length() -> None:
    def model(**axes: Value) -> float:
        return float(operations(Configs.of([Config.data_parallel(1, 1, axes=axes_of(axes))]))[0][0])

    plain = model(params=10**9, layers=24, hidden=2048, seq_len=2048)
    assert plain == 2048 * 10**9
    again = model(params=10**9, layers=24, hidden=2048, seq_len=2048, activation_checkpointing=1)
    assert again == pytest.approx(plain * 4 / 3)
    assert model(precision="bf16") == 1.0


def test_what_is_telling_avoids_what_is_known_and_covers_words() -> None:
    space = Space(
        (Axis("workers", (1, 2, 4, 8)), Axis("batch_size", (16, 64, 256)), Axis("precision", ("fp32", "bf16")))
    )
    configs = space.configs()
    rows = _chosen(configs, 6)
    assert len(set(rows)) == 6
    assert {configs[row].axes[0][1] for row in rows} == {"fp32", "bf16"}
    assert {configs[row].batch_size for row in rows} == {16, 64, 256}


def test_a_hundred_thousand_configs_can_be_told_apart() -> None:
    configs = Space((Axis("workers", tuple(range(1, 101))), Axis("batch_size", tuple(range(1, 1001))))).configs()
    gains = ProbeGain(configs, 8).gains(np.array([5, 99_999]))
    assert np.isfinite(gains).all()
    assert gains.max() > 0


@pytest.mark.parametrize("seed", range(3))
def test_sixteen_samples_tell_a_noisy_machine_from_a_quiet_one(seed: int) -> None:
    def learnt(noise: float) -> float:
        samples = timed(plain_step, grid(BATCHES, WORKERS), noise=noise, seed=seed)
        rows = _chosen(Configs.of([sample.config for sample in samples]), 16)
        return Gaussian().fit_seconds(JOB, [samples[row] for row in rows]).starts.sigma

    assert learnt(0.01) < 0.02
    assert 3 * learnt(0.01) < learnt(0.15) < 0.2


def test_an_odd_sample_among_sixteen_does_not_bend_the_others() -> None:
    samples = timed(plain_step, grid(BATCHES, WORKERS), noise=0.01)
    seen = _chosen(Configs.of([sample.config for sample in samples]), 16)
    usual, odd = _miss(samples, seen), seen[5]
    samples[odd] = replace(samples[odd], epoch_seconds=2 * (samples[odd].epoch_seconds or 0))
    assert _miss(samples, seen) < usual + 0.02
    errors = Gaussian().fit_seconds(JOB, [samples[row] for row in seen]).errors
    assert np.argmax(np.abs(errors)) == 5


def test_the_peak_of_a_known_device_stands_until_it_is_measured() -> None:
    axes = axes_of({"params": 10**9, "seq_len": 2048})
    old, new = (Config.data_parallel(8, 8, name, axes=axes) for name in ("a100", "h100"))
    model = Gaussian(per_node=8).fit_seconds(
        JOB, [Sample(old, 1.0, 100.0), Sample(replace(old, accumulate=2), 1.0, 99.0)]
    )
    fast, same = model.predict(Configs.of([new, old]))
    assert fast == pytest.approx(same * 312 / 989.4, rel=0.01)
