"""`cotune simulate --find`: which size of a cluster is enough, and what was tried to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

_TOLD = ("jct_mean", "waiting_mean", "utilisation", "gpu_hours", "declined", "unfinished")
_HEADS = {"jct_mean": "mean", "waiting_mean": "waiting", "utilisation": "use", "gpu_hours": "GPU hours"}


@dataclass(frozen=True)
class SizesFound:
    """What came out for each policy."""

    condition: Condition
    sizes: tuple[str, ...]
    answers: Mapping[str, SmallestSize]


def answer(
    setting: SimulationSetting, sizes: Sequence[str], asked: str, noise: float, policies: Mapping[str, Policy]
) -> SizesFound:
    """Return the smallest cluster that is enough under each policy; one that cannot hold every job is not tried."""
    condition = Condition.parse(asked)
    most = max(job.gpus for job in setting.jobs)
    large = [size for size in sizes if _gpus(size) >= most]
    if condition.on_deadlines and all(job.deadline is None for job in setting.jobs):
        raise UsageError(
            f"no job of the trace has a deadline, so {condition.text!r} asks for nothing; --deadlines 0.5,1.5 adds them"
        )
    if len(large) < len(sizes):
        note(f"tried from {large[0]} up: a job asks for {most} GPUs")
    answers = {}
    for name, policy in policies.items():

        def play(size: str, policy: Policy = policy, name: str = name) -> Mapping[str, float | None]:
            note(f"{name} on {size}")
            return flat(metrics(replace(setting, cluster=parse_cluster(size)).play(policy, noise)))

        answers[name] = smallest(large, condition, play)
    return SizesFound(condition, tuple(large), answers)


def _gpus(size: str) -> int:
    return sum(capacity(parse_cluster(size)).values())


def tell_sizes(found: SizesFound, trace: Trace, json: bool) -> None:
    """Print the answer with all that was tried, or a document of it; exit 5 where no size is enough for anybody."""
    if json:
        document = {
            "trace": str(trace.path),
            "jobs": len(trace.jobs),
            "condition": found.condition.text,
            "range": [found.sizes[0], found.sizes[-1]],
            "answers": {name: _document(one, found.condition) for name, one in found.answers.items()},
        }
        emit_json("simulate.find", document)
    else:
        _print(found, trace)
    if not any(one.smallest for one in found.answers.values()):
        words = f"not even {found.sizes[-1]} has {found.condition.text}; try more GPUs, or ask for less"
        end_with(Infeasible(words, found.condition.text), told=json)


def _document(one: SmallestSize, condition: Condition) -> dict[str, Any]:
    enough = one.smallest
    return {
        "cluster": None if enough is None else enough.size,
        "gpus": None if enough is None else _gpus(enough.size),
        "monotone": one.monotone,
        "tried": [
            {"cluster": trial.size, "gpus": _gpus(trial.size), "holds": trial.holds}
            | {name: trial.values.get(name) for name in dict.fromkeys((*condition.names, *_TOLD))}
            for trial in one.tried
        ],
    }


def _print(found: SizesFound, trace: Trace) -> None:
    names = tuple(dict.fromkeys((*found.condition.names, *_TOLD)))
    for policy, one in found.answers.items():
        rows = [
            (trial.size, "yes" if trial.holds else "no", *(_shown(name, trial.values.get(name)) for name in names))
            for trial in one.tried
        ]
        heads = ("cluster", "holds", *(_HEADS.get(name, name.rpartition(".")[2]) for name in names))
        table(heads, rows, title=f"{policy}, {counted(len(trace.jobs), 'job')}: {found.condition.text}?")
        if one.smallest is None:
            say(f"{policy}: not even {found.sizes[-1]} is enough")
            continue
        say(f"{policy}: {one.smallest.size} is enough, {_gpus(one.smallest.size)} GPUs")
        if not one.monotone:
            say("  a smaller one that was tried is enough too, one between is not: more GPUs do not always help here")


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1%}" if name.endswith(("share", "utilisation", "utilisation_useful")) else number(value, 5)
