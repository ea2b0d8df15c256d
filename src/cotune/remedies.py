"""What a user of the command line can do about an error: the verb or flag that helps.

Errors of the library carry facts and name their remedy; which flag that is, is known here alone.
"""

from __future__ import annotations

import math
from shlex import quote

from cotune.errors import CotuneError, Infeasible
from cotune.types import Forecast, Goal, Job

_LIKELY = 0.5  # chance from which a goal may be asked for with less confidence
_WORTH_MEASURING = 0.3  # chance below which more samples seldom lift a forecast to the confidence asked for


def explained(error: CotuneError, file: str = "") -> str:
    """Return what is wrong, and what to do about it here, with a job file that verbs do not find by themselves."""
    advice = _WORDS.get(error.remedy, "")
    if isinstance(error, Infeasible):
        words, advice = str(error), advice + more_measuring(error)
    else:
        words = _with_flag(error)
    if error.facts.get("older"):
        advice = advice.format(**error.facts)
    return words + (advice.replace("cotune profile", f"cotune profile --file {quote(file)}") if file else advice)


def listed(error: Infeasible) -> str:
    """Return a refusal as a short list: what was asked, what binds, what is nearest, and the command that helps."""
    lines = error.facts.get("lines")
    if not isinstance(lines, tuple):
        return explained(error)
    asked, binds, *nearest = lines
    shown = [asked, f"  {binds}", "  nearest, at that confidence:", *(f"    {near}" for near in nearest)]
    return "\n".join([*shown, *(f"  {words}" for words in _helping(error))])


def _helping(error: Infeasible) -> list[str]:
    """Return the commands that would help, each with why."""
    job, relaxed = error.facts.get("job"), error.facts.get("relaxed")
    helping = []
    if isinstance(job, Job) and isinstance(relaxed, Goal):
        cost = "" if relaxed.max_cost is None else f" --max-cost {relaxed.max_cost:g}"
        same = "" if job.command else " (with the same --recording)"
        how = "would be met" if error.facts.get("shown", True) else "may be met, in a longer run than any so far"
        helping.append(f"{how}: cotune plan{goal_flags(job, relaxed)}{cost}{same}")
    if likely := _less_sure(error):
        helping.append(likely)
    if measuring := more_measuring(error):
        helping.append(measuring.removeprefix(". "))
    return helping


def _less_sure(error: Infeasible) -> str:
    """Return the command that takes what is likelier than not, where that is less sure than was asked."""
    job, goal, best = _at_best(error)
    if best is None or not isinstance(job, Job) or not isinstance(goal, Goal) or best.probability < _LIKELY:
        return ""
    share = math.floor(100 * best.probability) / 100
    cost = "" if goal.max_cost is None else f" --max-cost {goal.max_cost:g}"
    return f"less sure, {best.config}: cotune plan{goal_flags(job, goal)}{cost} --confidence {share:g}"


def _at_best(error: Infeasible) -> tuple[object, object, Forecast | None]:
    """Return the job and goal of a refusal, and the forecast that is the most probable to meet it."""
    forecasts = [near for near in error.nearest if isinstance(near, Forecast)]
    best = max(forecasts, key=lambda forecast: forecast.probability, default=None)
    return error.facts.get("job"), error.facts.get("goal"), best


def _with_flag(error: CotuneError) -> str:
    """Return the message, a setting named by the flag that gives it."""
    setting = error.facts.get("setting")
    if not isinstance(setting, str):
        return str(error)
    axis = error.facts["axis"] and setting not in ("workers", "batch_size")
    flag = f"--axis {setting}" if axis else f"--{setting.replace('_', '-')}"
    return flag + str(error).removeprefix(setting)


_WORDS = {
    "refused": ": ask for another with cotune plan, or give this run its goal: cotune run --target ... --deadline ...",
    "refused_before": ": ask again with cotune plan; cotune run --plan {older} runs the one before, for {older_goal}",
    "unsure_from_scratch": ": drop --from-scratch, or ask for less: cotune plan --from-scratch",
    "profile": ": cotune profile",
    "profile_longer": ": cotune profile --budget 5m (the job must report its metric)",
    "replay": " (--max-device-seconds, --max-samples)",
    "budget": " (--budget)",
    "retry_failed": "; cotune profile --retry-failed tries them again",
    "epochs": " (--epochs)",
    "list_recording": "; `cotune predict` lists it",
    "command": ": give it after --, or as `run:` in cotune.yaml (`cotune init` writes one)",
    "init": ": write one with cotune init, or give the command after --",
    "layout": " (cotune plan; --workers, --batch-size)",
    "grid": "; use --search grid",
    "logged_workers": " (--workers, --runs)",
    "logged_batch_size": " (--batch-size, --runs)",
    "metric": " (--metric)",
    "epochs_of_steps": " (--examples, --steps-are-epochs)",
    "shards_titan": ": --shards 0,2,3",
    "shards_accelerate": ": --shards 2,3 --no-pipeline",
    "input": " (--input)",
    "random_layers": ": cotune model layers 100",
    "one_batch": ": drop --batches",
    "skip_bad": "; --skip-bad leaves such lines out and counts them",
}


def more_measuring(error: Infeasible) -> str:
    """Return the advice to measure more, where a config that was not itself measured may well meet the goal.

    It is given only where a profile would measure something.
    """
    job, goal, best = _at_best(error)
    if error.facts.get("next_probe") is None or best is None:
        return ""
    if not isinstance(job, Job) or not isinstance(goal, Goal) or not job.command:
        return ""
    known = [quantity.source for quantity in (best.epoch_seconds, best.accuracy) if quantity is not None]
    if best.probability < _WORTH_MEASURING or set(known) == {"measured"}:
        return ""
    chance = f"{best.config} meets it with probability {best.probability:.3g} so far"
    return f". More measuring may help, as {chance}: cotune profile{goal_flags(job, goal)}"


def goal_flags(job: Job, goal: Goal) -> str:
    """Return the flags by which a verb is asked for the same target and deadline."""
    level = "" if goal.target is None else f"{job.metric}{'>=' if job.better == 'higher' else '<='}{goal.target:g}"
    asked = f" --target {quote(level)}" if level else ""
    return asked + ("" if goal.deadline is None else f" --deadline {_briefly(goal.deadline)}")


def _briefly(seconds: float) -> str:
    """Return a duration as one would type it: 90s, 10m, 2h."""
    unit, size = next(((unit, size) for unit, size in (("h", 3600), ("m", 60)) if seconds % size == 0), ("s", 1))
    return f"{seconds / size:g}{unit}"
