"""A run does not go on in silence when its odds have fallen or its deadline will pass; it moves where it may."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cotune.jobfile.settings import Settings, loads
from cotune.predict.evidence import Evidence
from cotune.project.run_watch import PlannedOdds, RunWatch, planned_odds
from cotune.run.launch import Launch
from cotune.types import Config, Evaluation, Goal, Quantity, Sample

FILE = """
run: python train.py --batch-size {batch_size} --epochs {epochs}
examples: 1000
target: {metric: accuracy, at_least: 0.85}
deadline: 24s
max_epochs: 60
search: {workers: 1..2, batch_size: [32, 64]}
"""
CONFIG = Config.data_parallel(64, 1)


def _sample(name: str, epochs: int, slower: float = 1.0, config: Config = CONFIG, pace: float = 1.0) -> Sample:
    curve = tuple(
        Evaluation(float(e), 0.95 - 0.6 * (e / slower / 1.5 + 1) ** -0.7, pace * e) for e in range(1, epochs + 1)
    )
    return Sample(config, epochs, pace, curve[-1].accuracy, curve=curve, seconds=pace * epochs, id=name, length=60)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return loads(FILE, {}, "cotune.yaml", tmp_path)


def _odds(settings: Settings, goal: Goal, tmp_path: Path) -> PlannedOdds:
    quick = Config.data_parallel(32, 2)
    known = (_sample("probe", 20), replace(_sample("quick", 2, config=quick, pace=0.4), curve=(), accuracy=None))
    launch = Launch("run", settings.job, CONFIG, 60, tmp_path, goal.target)
    found = planned_odds(settings, goal, launch, Evidence(known), lambda: 0.0)
    assert found is not None
    return found


def test_a_run_that_learns_slower_than_its_probes_says_so_and_what_would_help(
    settings: Settings, tmp_path: Path
) -> None:
    watch = RunWatch(settings.goal, _odds(settings, settings.goal, tmp_path), lambda _: None)
    for epochs in range(1, 9):
        watch.see(_sample("run", epochs))
        assert watch.warning(None) is None
    assert (watch.told or 0.0) > 0.9
    watch.see(_sample("run", 9, slower=1.6))
    said = watch.warning(None)
    assert said is not None
    assert "is below the 0.9 asked" in said
    assert "batch 32 on 2 workers (global batch 64) would make it" in said
    assert "a deadline of" in said
    assert watch.warning(None) is None  # once


def test_a_run_whose_odds_are_low_goes_on_with_a_quicker_layout_unless_it_is_fixed(
    settings: Settings, tmp_path: Path
) -> None:
    odds = _odds(settings, settings.goal, tmp_path)
    now = _sample("run", 9, slower=1.6)
    odds.see(now)
    move = RunWatch(settings.goal, odds, lambda _: None).move(now)
    assert move is not None
    assert move.config == Config.data_parallel(32, 2)
    assert "instead of" in move.reason
    assert RunWatch(settings.goal, odds, lambda _: None, fixed=True).move(now) is None


def test_an_evaluation_before_the_first_step_says_nothing_of_the_odds(settings: Settings, tmp_path: Path) -> None:
    odds = _odds(settings, settings.goal, tmp_path)
    plain = _sample("run", 2)
    odds.see(replace(plain, curve=(Evaluation(0.0, -5.0, 0.0),)))
    assert odds.odds is None
    odds.see(replace(plain, curve=(Evaluation(0.0, -5.0, 0.0), *plain.curve)))
    other = _odds(settings, settings.goal, tmp_path)
    other.see(plain)
    assert odds.odds == pytest.approx(other.odds, abs=0.05)


def test_a_run_that_will_pass_its_deadline_says_so_once(settings: Settings) -> None:
    watch = RunWatch(settings.goal, None, lambda _: None)
    watch.see(_sample("run", 5))
    assert watch.warning(Quantity(5.0, 10.0, 15.0, "measured", "s")) is None
    said = watch.warning(Quantity(15.0, 20.0, 25.0, "measured", "s"))
    assert said is not None
    assert said == "expected to end after 25 s, its deadline is 24 s"
    assert watch.warning(Quantity(15.0, 20.0, 25.0, "measured", "s")) is None


def test_what_was_spent_before_a_run_counts_for_its_deadline(settings: Settings) -> None:
    watch = RunWatch(settings.goal, None, lambda _: None, before=12.0)
    watch.see(_sample("run", 5))
    assert watch.warning(Quantity(5.0, 8.0, 15.0, "measured", "s")) == (
        "expected to end after 25 s, its deadline is 24 s"
    )


def test_a_slow_start_up_is_not_taken_for_the_pace_of_a_run(settings: Settings, tmp_path: Path) -> None:
    """A run that took 9 s to come up, and 0.1 s an epoch since, was told P(met) 0.00 at its first evaluation."""
    odds = _odds(settings, settings.goal, tmp_path)
    first = Evaluation(1.0, 0.95 - 0.6 * (1 / 1.5 + 1) ** -0.7, 5.0)
    odds.see(replace(_sample("run", 1), epoch_seconds=5.0, seconds=5.0, curve=(first,)))
    assert odds.odds is not None
    assert odds.odds > 0.3  # as forecast, 17 epochs of a second are left in 19 s
    assert odds.better(CONFIG, 0.0) is not None
    slow = replace(settings.goal, deadline=5.5)
    odds = _odds(settings, slow, tmp_path)
    odds.see(replace(_sample("run", 1), epoch_seconds=5.0, seconds=5.0, curve=(first,)))
    assert odds.odds == pytest.approx(0.0, abs=0.01)


def test_no_deadline_that_has_passed_is_named_as_what_would_help(settings: Settings, tmp_path: Path) -> None:
    odds = _odds(settings, replace(settings.goal, deadline=9.0), tmp_path)
    odds.see(_sample("run", 9))
    assert odds.warning() == "P(met) 0.00 is below the 0.9 asked: its deadline of 9 s has passed"
    late = RunWatch(replace(settings.goal, deadline=9.0), None, lambda _: None)
    late.see(_sample("run", 9))
    assert late.warning(Quantity(0.1, 0.2, 0.3, "measured", "s")) == "its deadline of 9 s has passed"


def test_the_odds_and_the_end_of_a_run_are_of_one_belief(settings: Settings, tmp_path: Path) -> None:
    odds = _odds(settings, settings.goal, tmp_path)
    watch = RunWatch(settings.goal, odds, lambda _: None)
    watch.see(_sample("run", 9))
    end = watch.end(60.0)
    assert odds.odds is not None
    assert end is not None
    assert odds.odds > 0.9
    assert end.low >= 10.0  # at an evaluation
    assert end.high <= 24.0  # and in time as nine of ten runs


def test_a_run_for_no_target_or_of_a_job_without_curves_has_no_odds(settings: Settings, tmp_path: Path) -> None:
    launch = Launch("run", settings.job, CONFIG, 60, tmp_path, None)
    assert planned_odds(settings, settings.goal, launch, Evidence((_sample("probe", 20),)), lambda: 0.0) is None
    timed = replace(_sample("probe", 20), curve=(), accuracy=None)
    launch = replace(launch, target=0.85)
    assert planned_odds(settings, settings.goal, launch, Evidence((timed,)), lambda: 0.0) is None


def test_the_last_evaluation_below_the_target_ends_the_odds(settings: Settings, tmp_path: Path) -> None:
    odds = _odds(settings, settings.goal, tmp_path)
    ticks = iter(float(tick) for tick in range(100))
    odds.clock = lambda: next(ticks)  # every look takes a second, so that the next evaluations come while it rests
    odds.see(_sample("run", 30, slower=3.0))
    shown = odds.odds
    odds.see(_sample("run", 31, slower=3.0))
    assert odds.odds == shown
    odds.see(_sample("run", 60, slower=5.0))
    assert odds.odds == 0.0
