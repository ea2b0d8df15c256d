"""`cotune simulate --find`: which size of a cluster is enough, and what was tried to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cotune.cli.output import emit_json, end_with, note, say, table
from cotune.cluster.policy import Policy, capacity
from cotune.cluster.simulate.clusters import parse_cluster
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.simulate.questions import Condition, SmallestSize, flat, smallest
from cotune.cluster.simulate.setting import SimulationSetting
from cotune.cluster.traces import Trace
from cotune.errors import Infeasible, UsageError
from cotune.units import counted, number

_SHOWN = ("jct_mean", "waiting_mean", "utilisation", "gpu_hours", "declined", "unfinished")
_HEADS = {"jct_mean": "mean", "waiting_mean": "waiting", "utilisation": "use", "gpu_hours": "GPU hours"}


def print_smallest(
    setting: SimulationSetting,
    sizes: Sequence[str],
    asked: str,
    noise: float,
    policies: Mapping[str, Policy],
    trace: Trace,
    *,
    json: bool,
) -> None:
    """Print the smallest cluster that is enough under each policy, with all that was tried, or a document of it.

    A size that cannot hold every job is not tried. Exit 5 where no size is enough for anybody.
    """
    condition = Condition.parse(asked)
    most = max(job.gpus for job in setting.jobs)
    large = [size for size in sizes if _gpus(size) >= most]
    if condition.on_deadlines and all(job.deadline is None for job in setting.jobs):
        raise UsageError(
            f"no job of the trace has a deadline, so {condition.text!r} asks for nothing; --deadlines 0.5,1.5 adds them"
        )
    if len(large) < len(sizes):
        note(f"tried from {large[0]} up: a job asks for {most} GPUs")

    def play(name: str, size: str) -> Mapping[str, float | None]:
        note(f"{name} on {size}")
        return flat(metrics(replace(setting, cluster=parse_cluster(size)).play(policies[name], noise)))

    answers = {name: smallest(large, condition, partial(play, name)) for name in policies}
    if json:
        document = {
            "trace": str(trace.path),
            "jobs": len(trace.jobs),
            "condition": condition.text,
            "range": [large[0], large[-1]],
            "answers": {name: _document(one, condition) for name, one in answers.items()},
        }
        emit_json("simulate.find", document)
    else:
        for name, one in answers.items():
            _print(name, one, condition, counted(len(trace.jobs), "job"))
    if not any(one.smallest for one in answers.values()):
        words = f"not even {large[-1]} has {condition.text}; try more GPUs, or ask for less"
        end_with(Infeasible(words, condition.text), told=json)


def _gpus(size: str) -> int:
    return sum(capacity(parse_cluster(size)).values())


def _document(one: SmallestSize, condition: Condition) -> dict[str, Any]:
    enough = one.smallest
    return {
        "cluster": None if enough is None else enough.size,
        "gpus": None if enough is None else _gpus(enough.size),
        "monotone": one.monotone,
        "tried": [
            {"cluster": trial.size, "gpus": _gpus(trial.size), "holds": trial.holds}
            | {name: trial.values.get(name) for name in dict.fromkeys((*condition.names, *_SHOWN))}
            for trial in one.tried
        ],
    }


def _print(policy: str, one: SmallestSize, condition: Condition, jobs: str) -> None:
    names = tuple(dict.fromkeys((*condition.names, *_SHOWN)))
    rows = [
        (trial.size, "yes" if trial.holds else "no", *(_shown(name, trial.values.get(name)) for name in names))
        for trial in one.tried
    ]
    heads = ("cluster", "holds", *(_HEADS.get(name, name.rpartition(".")[2]) for name in names))
    table(heads, rows, title=f"{policy}, {jobs}: {condition.text}?")
    if one.smallest is None:
        say(f"{policy}: not even {one.tried[-1].size} is enough")
        return
    say(f"{policy}: {one.smallest.size} is enough, {_gpus(one.smallest.size)} GPUs")
    if not one.monotone:
        say("  a smaller one that was tried is enough too, one between is not: more GPUs do not always help here")


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1%}" if name.endswith(("share", "utilisation", "utilisation_useful")) else number(value, 5)
