"""The spread between starts of one config: in every forecast of seconds, told by repeats and by load."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from cotune.predict.learn import forecaster
from cotune.predict.samples import timed
from cotune.predict.starts import (
    PRIOR,
    between_repeats,
    between_sittings,
    engine_start,
    load_words,
    warm_start_gain,
)
from cotune.space import Configs
from cotune.types import Z90, Cluster, Config, Evaluation, Job, Load, Sample, Terms

JOB = Job("made-up", examples=10_000)
MEASURED = [(workers, batch) for workers in (1, 2, 4, 8) for batch in (32, 128)]


def start(seconds: float, workers: int = 1, others: float | None = None, batch: int = 64) -> Sample:
    load = None if others is None else Load(others, 4)
    return Sample(Config.data_parallel(batch, workers), 1.0, seconds, seconds=seconds, load=load)


def test_repeats_that_lie_apart_make_the_next_one_less_sure_and_alike_ones_surer() -> None:
    once, alike, apart = (
        between_repeats([start(seconds) for seconds in many]) for many in ([10.0], [10.0] * 5, [8.0, 10.0, 14.0])
    )
    assert alike.quantile(0.9, 5) < once.quantile(0.9, 1) < apart.quantile(0.9, 3)


def test_an_idle_machine_is_expected_to_repeat_itself_and_a_busy_one_not() -> None:
    idle, unknown, busy = ([start(10.0, others=others)] for others in (0.0, None, 6.0))
    assert between_repeats(idle).sigma == pytest.approx(PRIOR.idle, rel=0.1)
    assert between_repeats(unknown).sigma == pytest.approx(PRIOR.shared, rel=0.1)
    assert between_sittings(busy) > 3 * PRIOR.shared
    assert between_sittings(idle) == between_sittings(unknown) == 0.0


def test_starts_of_one_sitting_do_not_tell_how_the_load_of_a_busy_machine_changes() -> None:
    """Two probes seconds apart found the same neighbours, and the run a minute later took twice as long."""
    once, minutes, days = (
        [replace(start(10.0, others=4.0), started=f"2026-01-{1 + each * day:02}T00:0{each}:00+00:00") for each in few]
        for few, day in (([0], 0), ([0, 1, 2, 3], 0), ([0, 1, 2, 3], 1))
    )
    assert between_sittings(minutes) == between_sittings(once) == pytest.approx(PRIOR.load * np.log(2))
    assert between_sittings(days) < 0.7 * between_sittings(minutes)
    assert between_sittings([*minutes, start(10.0)]) == between_sittings(minutes), "one that did not tell"


def test_a_measured_config_is_told_as_one_more_start_and_not_as_a_mean() -> None:
    """Nine repeats that lie a fifth apart do not make an interval of five per cent."""
    rng = np.random.default_rng(0)
    others = [start(20.0 / workers, workers) for workers in (2, 4, 8)]
    repeats = [start(20.0 * float(np.exp(0.2 * rng.normal()))) for _ in range(9)]
    outlook = forecaster(JOB, [*repeats, *others], Cluster(), accuracy=None)(Configs.of([repeats[0].config]), 1)
    assert outlook.seconds_source[0] == "measured"
    half = Z90 * float(outlook.spread[0])
    inside = np.mean([abs(np.log((one.epoch_seconds or 0) / outlook.epoch_seconds[0])) <= half for one in repeats])
    assert half > 0.12
    assert inside >= 0.7


def test_starts_that_nobody_repeated_lie_no_further_apart_than_the_law_misses_configs_left_out() -> None:
    """Until repeats say how far apart they lie."""
    rng = np.random.default_rng(0)
    exact, rough = (
        [start(20.0 / workers * float(np.exp(off * rng.normal())), workers, batch=batch) for workers, batch in MEASURED]
        for off in (0.0, 0.3)
    )
    new = Configs.of([Config.data_parallel(96, 3)])
    narrow, wide = (forecaster(JOB, seen, Cluster(), accuracy=None)(new, 1).spread[0] for seen in (exact, rough))
    assert narrow < 0.5 * wide


def test_draws_of_seconds_have_a_long_slow_tail() -> None:
    outlook = forecaster(JOB, [start(20.0 / w, w) for w in (1, 2, 4)], Cluster(), accuracy=None, draws=2000)(
        Configs.of([Config.data_parallel(64, 2)]), 1
    )
    pace = np.log(outlook.pace(np.array([0]))[0] / outlook.epoch_seconds[0])
    assert np.quantile(pace, 0.9) == pytest.approx(Z90 * float(outlook.spread[0]), rel=0.05)
    assert np.quantile(pace, 0.995) > 3.5 * outlook.spread[0]
    assert np.quantile(pace, 0.995) > -np.quantile(pace, 0.005)


def test_a_forecast_says_that_its_seconds_were_measured_on_a_busy_machine() -> None:
    samples = [start(20.0 / workers, workers, others=6.0) for workers in (1, 2, 4)]
    outlook = forecaster(JOB, samples, Cluster(), accuracy=None)(Configs.of([samples[0].config]), 1)
    assert "seconds were measured while 6 other processes were busy on 4 cores" in " ".join(outlook.notes)
    assert load_words([start(10.0, others=0.1)]) == load_words([start(10.0)]) == ""


def test_an_engine_is_as_quick_to_come_up_again_on_an_idle_machine_and_less_surely_on_a_busy_one() -> None:
    known = [replace(start(10.0, others=others), terms=Terms(engine=8.0)) for others in (0.0, None, 6.0)]
    assert [engine_start([one])[0] for one in known] == pytest.approx([8.0] * 3)
    idle, unknown, busy = (engine_start([one])[1] for one in known)
    assert idle < unknown < busy


def test_a_start_on_an_engine_that_is_up_is_as_quick_as_those_of_probes_after_the_first() -> None:
    probes = [replace(start(10.0), purpose="probe", terms=Terms(engine=seconds)) for seconds in (4.0, 0.5, 0.7, 0.6)]
    assert warm_start_gain(probes) == pytest.approx(4.0 - 0.6)
    assert warm_start_gain(probes[:1]) == 0.0
    assert warm_start_gain([replace(one, terms=Terms()) for one in probes]) == 0.0


@pytest.mark.parametrize("probes", [(2.7, 0.06, 0.05), (2.7,), (0.06, 0.05, 0.07)])
def test_runs_on_an_engine_that_is_up_do_not_lower_how_long_it_takes_to_come_up(probes: tuple[float, ...]) -> None:
    def told(purpose: Literal["probe", "run"], *engines: float) -> list[Sample]:
        return [replace(start(10.0), purpose=purpose, terms=Terms(engine=seconds)) for seconds in engines]

    cold = [*told("probe", *probes), *told("run", 4.1, 2.7)]
    served = told("run", *(0.05 + 0.002 * place for place in range(12)))
    assert engine_start([*cold, *served]) == engine_start(cold)
    assert 2.6 < engine_start(cold)[0] < 4.2


def probed(engine: float, others: float | None, *, startup: float = 1.5, epochs: int = 8) -> Sample:
    """Return a probe of a quick job as its lines tell it: brief where it was over after two epochs."""
    begun = engine + startup
    told = tuple(Evaluation(epoch, 0.5, begun + 0.2 * epoch) for epoch in range(1, epochs + 1))
    terms = Terms(engine=engine, startup=startup)
    return replace(start(0.2, others=others), epochs=float(epochs), curve=told, terms=terms)


def test_a_first_start_too_brief_to_tell_its_pace_tells_how_long_the_engine_takes_to_come_up() -> None:
    known = [probed(4.0, 0.0, epochs=2), probed(0.05, 0.0), probed(0.06, 0.0)]
    assert known[0] not in timed(known)
    outlook = forecaster(JOB, known, Cluster(), accuracy=None)(Configs.of([known[0].config]), 1)
    assert outlook.startup[0] == pytest.approx(4.0 + 1.5)


def test_every_profile_brings_its_engine_up_once_and_all_of_them_tell_how_long_that_takes() -> None:
    known = [probed(engine, 0.0) for engine in (2.4, 0.05, 0.06, 6.0, 0.05, 0.04, 2.5, 0.05)]
    assert engine_start(known)[0] == pytest.approx(2.5)
    assert warm_start_gain(known) == pytest.approx(2.5 - 0.05)


def test_a_run_takes_as_long_to_begin_as_starts_beside_what_ran_of_late() -> None:
    """What passes before the first step was 3.5 s on an idle machine, and 6 s beside two others for each core."""
    idle = [probed(2.4, 0.0), *(probed(0.05, 0.0) for _ in range(5))]
    busy = [probed(0.05 * 3**PRIOR.slowed, 8.0, startup=1.5 * 3**PRIOR.slowed) for _ in range(PRIOR.late_loads)]
    outlooks = [
        forecaster(JOB, known, Cluster(), accuracy=None)(Configs.of([idle[0].config]), 1)
        for known in (idle, [*idle, *busy], [*idle, *busy, *idle])
    ]
    seconds = [float(outlook.startup[0]) for outlook in outlooks]
    assert seconds[1] == pytest.approx(3**PRIOR.slowed * seconds[0], rel=0.01)
    assert seconds[2] == pytest.approx(seconds[0], rel=0.01)
    assert outlooks[1].startup_spread > 2 * outlooks[0].startup_spread, "they may be gone by then, or more"


def test_a_single_slow_start_does_not_make_usual_ones_look_warm() -> None:
    probes = [replace(start(10.0), purpose="probe", terms=Terms(engine=seconds)) for seconds in (60.0, 0.06, 0.05)]
    runs = [replace(start(10.0), purpose="run", terms=Terms(engine=seconds)) for seconds in (2.7, 2.6)]
    assert engine_start([*probes, *runs])[0] == pytest.approx(2.7)
