from __future__ import annotations

from dataclasses import replace

import pytest

from cotune.errors import NotFound, UsageError
from cotune.run.training import config_of_run, ended_short, epochs_elsewhere, goal_of_run, missed
from cotune.space import Axis, Space
from cotune.types import Config, Evaluation, Forecast, Goal, Job, Plan, Quantity, Sample

SPACE = Space((Axis("workers", (1, 2)), Axis("batch_size", (16, 64)), Axis("precision", ("fp32", "bf16"))))
FIXED = Space((Axis("workers", (1, 2, 3, 4)),), global_batch=64)
CONFIG = Config.data_parallel(64, 2, accumulate=2, axes=(("precision", "bf16"),))
SOME = Quantity(1.0, 2.0, 3.0, "measured")
PLAN = Plan(Forecast(CONFIG, 12, SOME, SOME, SOME, SOME, 0.95), Goal(target=0.95, deadline=7200), "because")


def test_the_goal_that_was_planned_for_is_run_whatever_the_job_file_says() -> None:
    file = Goal(target=0.8, deadline=600, max_epochs=30)
    goal = goal_of_run(PLAN, file, [])
    assert (goal.target, goal.deadline, goal.max_epochs) == (0.95, 7200, 12)


def test_a_flag_wins_over_the_plan_and_time_flags_over_its_cap() -> None:
    asked = Goal(target=0.8, deadline=600, max_epochs=30)
    assert goal_of_run(PLAN, asked, ["target"]).target == 0.8
    assert goal_of_run(PLAN, asked, ["target"]).max_epochs == 12
    assert goal_of_run(PLAN, asked, ["deadline"]).max_epochs == 30
    assert goal_of_run(None, asked, []) == asked


def test_a_resumed_run_keeps_the_goal_it_began_with_unless_a_flag_says_another() -> None:
    begun, asked = Goal(target=0.99, max_epochs=20), Goal(target=0.8, deadline=600, max_epochs=30)
    for plan in (PLAN, None):
        assert goal_of_run(plan, asked, [], begun) == begun
        assert goal_of_run(plan, asked, ["target"], begun) == replace(begun, target=0.8)
        assert goal_of_run(plan, asked, ["deadline"], begun) == replace(begun, deadline=600, max_epochs=30)


def test_a_launcher_that_cannot_stop_at_the_target_gets_the_epochs_that_it_takes() -> None:
    needed = replace(PLAN, forecast=replace(PLAN.forecast, epochs_needed=Quantity(4.0, 5.0, 6.4, "measured", "epochs")))
    goal = goal_of_run(needed, Goal(), [])
    assert epochs_elsewhere(needed, goal) == 7
    assert epochs_elsewhere(needed, replace(goal, max_epochs=5)) == 5
    assert epochs_elsewhere(needed, replace(goal, epochs=9)) == 9
    assert epochs_elsewhere(needed, replace(goal, prefer="accurate")) == 12
    assert epochs_elsewhere(None, Goal(max_epochs=30)) == 30


def test_what_is_given_is_laid_over_the_planned_config() -> None:
    config = config_of_run(PLAN.config, SPACE, "cpu", workers=1, batch_size=None, axes={})
    assert (config.workers, config.batch_size, config.accumulate) == (1, 64, 2)
    assert config.axes == (("precision", "bf16"),)
    changed = config_of_run(PLAN.config, SPACE, "cpu", workers=None, batch_size=16, axes={"precision": "fp32"})
    assert (changed.batch_size, changed.axes) == (16, (("precision", "fp32"),))


def test_without_a_plan_both_numbers_are_needed_and_named_axes_take_their_first_value() -> None:
    with pytest.raises(NotFound, match="plan first"):
        config_of_run(None, SPACE, "cpu", workers=2, batch_size=None, axes={})
    config = config_of_run(None, SPACE, "t4", workers=2, batch_size=16, axes={})
    assert (config.device, config.axes) == ("t4", (("precision", "fp32"),))


def test_accumulate_is_a_number_of_the_config_and_no_axis_of_the_users() -> None:
    config = config_of_run(PLAN.config, SPACE, "cpu", workers=1, batch_size=16, axes={"accumulate": 4})
    assert (config.accumulate, config.global_batch) == (4, 64)
    assert "accumulate" not in dict(config.axes)
    with pytest.raises(UsageError, match="whole number"):
        config_of_run(PLAN.config, SPACE, "cpu", workers=1, batch_size=16, axes={"accumulate": 0})


def test_a_fixed_recipe_keeps_its_global_batch() -> None:
    config = config_of_run(None, FIXED, "cpu", workers=4, batch_size=None, axes={})
    assert (config.batch_size, config.global_batch) == (16, 64)
    for wrong in ({"workers": 3, "batch_size": None}, {"workers": 2, "batch_size": 64}):
        with pytest.raises(UsageError, match="fixes the global batch at 64"):
            config_of_run(None, FIXED, "cpu", axes={}, **wrong)


def test_what_was_missed_is_said_for_target_deadline_and_cost() -> None:
    job, goal = Job("made-up"), Goal(target=0.9, deadline=10, max_cost=5)
    sample = Sample(CONFIG, curve=(Evaluation(1, 0.95, 1.0), Evaluation(2, 0.85, 2.0)))
    assert missed(job, goal, sample, seconds=9, cost=4, unit="USD") is None
    words = missed(job, goal, Sample(CONFIG), seconds=11, cost=6, unit="USD") or ""
    assert "nothing was reported" in words
    assert "it took 11 s" in words
    assert "it cost 6 USD" in words


@pytest.mark.parametrize(
    ("reported", "whole", "short"),
    [
        ((0.0, 2.0, 4.0), 5.0, False),  # every second epoch is evaluated: the fifth was trained, and not told
        ((2.0, 4.0), 6.0, True),  # the sixth would have been told
        ((1.0, 2.0), 3.0, True),
        ((1.0, 2.0), 2.4, False),
        ((4.0,), 7.0, False),
        ((), 5.0, True),
    ],
)
def test_a_script_that_evaluates_seldom_has_trained_what_it_was_told(
    reported: tuple[float, ...], whole: float, short: bool
) -> None:
    curve = tuple(Evaluation(epoch, 0.5, epoch) for epoch in reported)
    sample = Sample(CONFIG, epochs=reported[-1] if reported else 0.0, curve=curve)
    assert ended_short(sample, whole) is short
    words = missed(Job("j"), Goal(epochs=whole), sample, seconds=1, cost=1, unit="USD")
    assert (words is not None) is short
