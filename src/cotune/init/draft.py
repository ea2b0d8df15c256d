"""A job file to start from: what the command and its script say of the job, each line with the place it was read at.

What stands nowhere is left as a comment to fill in: no learning rate is invented, and no schedule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cotune.init.script import Script, read
from cotune.jobfile import metric_names
from cotune.jobfile.command import line, set_by_framework, unfilled
from cotune.jobfile.finder import SuggestedPattern, suggested
from cotune.types import Job

_BATCHES = (16, 32, 64, 128, 256)
_AROUND = (0.25, 0.5, 1, 2, 4)  # times the script's own batch
_PATTERN = (
    r"# pattern: 'epoch (?P<epoch>\d+) .*accuracy (?P<accuracy>[\d.]+)'"
    "   # when the script does not call cotune.report"
)
_RATE = "# lr: {at: RATE, global_batch: BATCH, rule: linear}     # the rate that is known, at the batch it is known at"
_SCHEDULE = "# schedule: cosine      # or constant, linear, one_cycle, wsd(0.3), step(30,60,80): how the rate falls"


@dataclass(frozen=True, slots=True)
class Draft:
    """The text of a job file, its command, and remarks for the user."""

    text: str
    command: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def open_target(self) -> str | None:
        """Return the target whose level is left to the user, `eval_loss<=LEVEL`, if it is."""
        found = re.search(r"^# target: (\S+LEVEL)", self.text, re.MULTILINE)
        return found[1] if found else None

    @property
    def lacks_target(self) -> bool:
        """Return whether the target is left to the user."""
        return "\n# target: " in self.text


def draft(command: Sequence[str], folder: Path, name: str, examples: int | None, cores: int) -> Draft:
    """Return a job file for a command, with what its script says of itself."""
    script = read(command, folder) or Script("", {}, {})
    words = _with_placeholders(command, script)
    printed = _printed(script)
    parts = [
        "# What is trained, what is asked, what may be chosen. Every field is optional; flags win over this file.",
        f"name: {_yaml(name)}",
        f"run: {_yaml(line(words))}",
        *_framework(script),
        f"examples: {examples}" if examples else "# examples: 60000      # in one epoch of the training data",
        *_target(script, printed),
        "deadline: 10m",
        _length(script),
        *_search(script, words, cores),
        _rate(script, words),
        *_schedule(script, words),
        _pattern(script, printed),
        "budget: {profile: 3m}",
        "engine: local\n",
    ]
    return Draft("\n".join(parts), words, tuple(_remarks(command, folder, script, words, printed)))


def missing_script(command: Sequence[str], folder: Path) -> str | None:
    """Return the Python script that a command names and that is not there, if any."""
    return next((word for word in command if word.endswith(".py") and not (folder / word).is_file()), None)


def _with_placeholders(command: Sequence[str], script: Script) -> tuple[str, ...]:
    """Return the command with a placeholder for each number that one of the script's flags sets."""
    words = list(command)
    in_steps = _steps(script) is not None
    for setting, flag in script.flags.items():
        given = any(word.partition("=")[0] == flag.removesuffix("=") for word in words)
        unwanted = {
            "lr": script.scales is not None or not {"lr", "batch_size"} <= script.numbers.keys(),
            "accumulate": _accumulate(script) == 1,
            "seed": given,  # one that its user has chosen
            "epochs": in_steps,
            "steps": not in_steps,
        }
        placeholder = f"{{{setting}}}"
        if not unwanted.get(setting, False) and not any(placeholder in word for word in words):
            words = _set(words, flag, placeholder)
    return tuple(words)


def _set(words: list[str], flag: str, placeholder: str) -> list[str]:
    for place, word in enumerate(words):
        if word == flag and place + 1 < len(words):
            return [*words[: place + 1], placeholder, *words[place + 2 :]]
        if word.startswith(f"{flag.removesuffix('=')}="):
            return [*words[:place], f"{flag.removesuffix('=')}={placeholder}", *words[place + 1 :]]
    return [*words, flag + placeholder] if flag.endswith("=") else [*words, flag, placeholder]


def _framework(script: Script) -> list[str]:
    """Return the lines of what sets the numbers besides the command: its framework, and variables."""
    lines = []
    if script.framework is not None and not script.reports:
        lines.append(f"framework: {script.framework.value}      # {script.framework.where}: cotune adds its callback")
    if script.reads:
        names, where = (
            ", ".join(fact.value for fact in script.reads),
            dict.fromkeys(fact.where for fact in script.reads),
        )
        lines.append(f"reads: [{names}]      # from variables: {', '.join(where)}")
    return lines


def _target(script: Script, printed: SuggestedPattern | None) -> list[str]:
    metrics = [fact.value for fact in script.metrics]
    metric = metrics[0] if metrics else printed.metric if printed else "" if script.name else "accuracy"
    where = script.metrics[0].where if script.metrics else f"as {script.name} prints it"
    if metric == "accuracy":
        per_cent = printed is not None and printed.pattern.endswith("%")
        return [f"target: {{metric: accuracy, at_least: {95 if per_cent else 0.95}}}{_note(script, where)}"]
    if not metric:
        return ["# target: {metric: ..., at_most: ...}      # or at_least; by the name that the job reports it by"]
    sign = "<=" if metric_names.better(metric) == "lower" else ">="
    better = "" if metric_names.better(metric) else "      # better: higher or lower?"
    named = [] if printed or better else [f"metric: {metric}      # {where}"]
    others = f"; also {', '.join(metrics[1:])}" if metrics[1:] else ""
    return [*named, f"# target: {metric}{sign}LEVEL      # {where}{others}{better}"]


def _note(script: Script, where: str) -> str:
    return f"      # {where}" if script.name else ""


def _steps(script: Script) -> str | None:
    """Return the length of a script that counts steps and no epochs, and whose batch is known."""
    known = script.numbers
    if "steps" not in known or "epochs" in known or "batch_size" not in known:
        return None
    batch = round(known["batch_size"].value) * _accumulate(script)
    return f"{known['steps'].value:.0f} steps of {batch}      # {known['steps'].where}"


def _length(script: Script) -> str:
    if (steps := _steps(script)) is not None:
        return f"length: {steps}"
    epochs = script.numbers.get("epochs")
    if epochs is None:
        return "# max_epochs: 30      # the most that a run may take"
    return f"max_epochs: {max(1, round(epochs.value))}      # {epochs.where}"


def _accumulate(script: Script) -> int:
    found = script.numbers.get("accumulate")
    return round(found.value) if found else 1


def _search(script: Script, words: Sequence[str], cores: int) -> list[str]:
    """Return the lines of what may be chosen: batches around the script's own, one worker where none could meet."""
    own = script.numbers.get("batch_size")
    batches = _BATCHES if own is None else sorted({max(1, round(own.value * times)) for times in _AROUND})
    alone = not script.meets and not any("{workers}" in word for word in words)
    axes = [f"workers: {1 if alone else f'1..{cores}'}", f"batch_size: [{', '.join(map(str, batches))}]"]
    axes += [f"accumulate: [{_accumulate(script)}]"] if _accumulate(script) > 1 else []
    why = [f"{own.where}: batch {own.value:g}"] if own else []
    why += [f"{script.name} has nothing by which workers meet, so several would each train all of it"] if alone else []
    note = f"      # {'; '.join(why)}" if why else ""
    open_axes = [f"# {name}: [..., ...] in search has the values for {{{name}}}" for name in unfilled(words)]
    return [f"search: {{{', '.join(axes)}}}{note}", *open_axes]


def _rate(script: Script, words: Sequence[str]) -> str:
    """Return the line of the learning rate: what the script has by default, or a comment that asks for it."""
    if not {"lr", "batch_size"} <= script.numbers.keys():
        return _RATE
    at, batch = script.numbers["lr"], round(script.numbers["batch_size"].value) * _accumulate(script)
    rule, why = "fixed", "the command does not set it"
    if script.scales is not None:
        rule, why = "linear", f"{script.scales} scales it"
    elif any("{lr}" in word for word in words) or "lr" in set_by_framework(_as_job(script, words)):
        rule, why = script.rule or ("linear", "no one kind of optimiser is named; or sqrt, fixed, power(p)")
    return f"lr: {{at: {at.value:.10g}, global_batch: {batch}, rule: {rule}}}      # {at.where}; rule: {why}"


def _as_job(script: Script, words: Sequence[str]) -> Job:
    return Job(script.name, tuple(words), framework=script.framework.value if script.framework else None)


def _schedule(script: Script, words: Sequence[str]) -> list[str]:
    """Return the lines of the schedule: unknown where the script's own length says when it ends."""
    if script.schedule is None:
        return [_SCHEDULE]
    told, where = script.schedule
    length = {"{epochs}", "{steps}"} & set(re.findall(r"\{\w+\}", " ".join(words)))
    if told.ends_with_run and not length and not set_by_framework(_as_job(script, words)):
        return [f"schedule: unknown      # {where}, but the command does not say how long a run is"]
    unit = "of a run" if told.warmup < 1 else "steps" if _steps(script) else "epochs"
    warmup = [f"warmup: {told.warmup:g}      # {unit}"] if told.warmup else []
    return [f"schedule: {told._replace(warmup=0.0)}      # {where}", *warmup]


def _pattern(script: Script, printed: SuggestedPattern | None) -> str:
    """Return the line that says how cotune hears of the script: by its framework, or by what it prints itself."""
    if script.framework is not None:
        return "# no pattern: cotune's callback reports progress and metrics"
    if printed is None:
        return _PATTERN
    quoted = printed.pattern.replace("'", "''")
    return f"pattern: '{quoted}'      # as {script.name} prints it"


def _printed(script: Script) -> SuggestedPattern | None:
    """Return what reads the lines that a script prints: those of a metric, in the unit that its length is in."""
    if script.reports or script.framework is not None:
        return None
    unit = "step" if _steps(script) is not None else "epoch"
    found = suggested(script.prints, "accuracy", bare=unit, named=False)
    return found if found is not None and f"?P<{unit}>" in found.pattern else None


def _remarks(
    command: Sequence[str], folder: Path, script: Script, words: Sequence[str], printed: SuggestedPattern | None
) -> list[str]:
    """Return what was read of the script, what is left to fill in, and what prevents a start."""
    remarks = []
    if printed is not None:
        remarks.append(f"it prints lines such as {printed.line!r}, of which the pattern reads {printed.metric}")
    if any("{lr}" in word for word in words) and not {"lr", "batch_size"} <= script.numbers.keys():
        remarks.append(
            "the command asks for {lr}: fill in the line lr, with the global batch that the rate is known at"
        )
    for name in unfilled(words):
        remarks.append(
            f"nothing fills {{{name}}} of the command: give its values in the line search, {name}: [..., ...], "
            f"or by --axis {name}=...,... (write {{{{{name}}}}} for the braces themselves)"
        )
    if (missing := missing_script(command, folder)) is not None:
        remarks.append(f"there is no {missing} here, so nothing could be read of it: correct the line run")
    return remarks


def _yaml(text: str) -> str:
    """Return a text as YAML in one line, quoted only where it must be."""
    return yaml.safe_dump(text, width=10_000, allow_unicode=True).removesuffix("\n").removesuffix("\n...")
