"""What a user of the command line can do about an error: the verb or flag that helps.

Errors of the library carry facts and name their remedy; which flag that is, is known here alone.
"""

from __future__ import annotations

import math
import shlex
from shlex import quote
from typing import Any

from cotune.errors import CotuneError, Infeasible
from cotune.types import Forecast, Goal, Job, Plan

Remedy = dict[str, Any]
_LIKELY = 0.5  # chance from which a goal may be asked for with less confidence
_WORTH_MEASURING = 0.3  # chance below which more samples seldom lift a forecast to the confidence asked for


def explained(error: CotuneError, file: str = "") -> str:
    """Return what is wrong, and what to do about it here, with a job file that verbs do not find by themselves."""
    advice = _WORDS.get(error.remedy, "")
    if isinstance(error, Infeasible):
        words = str(error)
        advice += "".join(f". {_line(one)}" for one in remedies(error) if "profile" in one["argv"])
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
    return "\n".join([*shown, *(f"  {_line(one)}" for one in remedies(error))])


def remedies(error: Infeasible) -> list[Remedy]:
    """Return the commands that would help, as documents: why, the words of the command, and how likely it is to."""
    job, goal, relaxed, best = (*map(error.facts.get, ("job", "goal", "relaxed")), _most_probable(error))
    found: list[Remedy] = []
    if not isinstance(job, Job) or not isinstance(goal, Goal):
        return found
    same = "" if job.command else ", with the same --recording"
    if isinstance(relaxed, Goal):
        shown = error.facts.get("shown", True)
        why = "would be met" if shown else "may be met, in a longer run than any so far"
        argv = ["cotune", "plan", *_plan_words(job, relaxed)]
        found.append({"why": why + same, "argv": argv, "probability": relaxed.confidence if shown else None})
    if best is None:
        return found
    if best.probability >= _LIKELY:
        confidence = f"{math.floor(100 * best.probability) / 100:g}"
        argv = ["cotune", "plan", *_plan_words(job, goal), "--confidence", confidence]
        why = f"with less confidence, {best.config}{same}"
        found.append({"why": why, "argv": argv, "probability": best.probability})
    sources = {quantity.source for quantity in (best.epoch_seconds, best.accuracy) if quantity is not None}
    measurable = error.facts.get("next_probe") is not None and job.command and sources != {"measured"}
    if measurable and best.probability >= _WORTH_MEASURING:
        why = f"More measuring may help, as {best.config} meets it with probability {best.probability:.3g} so far"
        found.append({"why": why, "argv": ["cotune", "profile", *goal_words(job, goal)], "probability": None})
    return found


def _most_probable(error: Infeasible) -> Forecast | None:
    """Return the forecast that is the most probable to meet the goal of a refusal."""
    plan = error.facts.get("plan")
    if isinstance(plan, Plan):
        return plan.forecast
    forecasts = [near for near in error.nearest if isinstance(near, Forecast)]
    return max(forecasts, key=lambda forecast: forecast.probability, default=None)


def _line(remedy: Remedy) -> str:
    return f"{remedy['why']}: {shlex.join(remedy['argv'])}"


def _with_flag(error: CotuneError) -> str:
    """Return the message, a setting named by the flag that gives it."""
    setting = error.facts.get("setting")
    if not isinstance(setting, str):
        return str(error)
    axis = error.facts["axis"] and setting not in ("workers", "batch_size")
    flag = f"--axis {setting}" if axis else f"--{setting.replace('_', '-')}"
    return flag + str(error).removeprefix(setting)


_WORDS = {
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


def _plan_words(job: Job, goal: Goal) -> list[str]:
    cost = [] if goal.max_cost is None else ["--max-cost", f"{goal.max_cost:g}"]
    return [*goal_words(job, goal), *cost]


def goal_words(job: Job, goal: Goal) -> list[str]:
    """Return the flags by which a verb is asked for the same target and deadline."""
    words = []
    if goal.target is not None:
        words += ["--target", f"{job.metric}{'>=' if job.better == 'higher' else '<='}{goal.target:g}"]
    if goal.deadline is not None:
        words += ["--deadline", _briefly(goal.deadline)]
    return words


def _briefly(seconds: float) -> str:
    """Return a duration as one would type it: 90s, 10m, 2h."""
    unit, size = next(((unit, size) for unit, size in (("h", 3600), ("m", 60)) if seconds % size == 0), ("s", 1))
    return f"{seconds / size:g}{unit}"
