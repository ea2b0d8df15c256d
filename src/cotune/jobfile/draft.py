"""A job file to start from, with what the command and its script say: batch, rate and length, their flags filled in.

Numbers come from the script's own defaults or the command (`jobfile/script.py`), and where they stand nowhere the line
is left as a comment to fill in: no learning rate is invented.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cotune.jobfile import metric_names
from cotune.jobfile.command import epochs_are_steps, line, unfilled
from cotune.jobfile.finder import SuggestedPattern, held_out_names, only_value, score, suggested
from cotune.jobfile.rate import rule_for
from cotune.jobfile.script import Framework, Script, Setting, read
from cotune.jobfile.script_talk import NOT_MEETING

_BATCHES = (16, 32, 64, 128, 256)
_AROUND = (0.25, 0.5, 1, 2, 4)  # times the script's own batch
_PLACEHOLDERS: dict[Setting, str] = {
    "batch_size": "{batch_size}",
    "epochs": "{epochs}",
    "steps": "{steps}",
    "lr": "{lr}",
    "accumulate": "{accumulate}",
    "seed": "{seed}",
}
_PATTERN = (
    r"# pattern: 'epoch (?P<epoch>\d+) .*accuracy (?P<accuracy>[\d.]+)'"
    "   # when the script does not call cotune.report"
)
_FRAMEWORKS: dict[Framework, str] = {
    "transformers": "transformers' Trainer",
    "lightning": "Lightning",
    "accelerate": "Accelerate",
}
_PUT_IN: dict[Framework, str] = {
    "transformers": "cotune puts in its callback, batch, rate and length, so nothing need be edited",
    "lightning": "cotune puts in its callback, batch, rate and length, so nothing need be edited",
    "accelerate": "cotune counts its steps and takes the metric from accelerator.log; its batch must be a flag",
}
_TEMPLATE = """\
# What is trained, what is asked, what may be chosen. Every field is optional; flags win over this file.
name: {name}
run: {run}
{examples}
{target}
deadline: 10m
{length}
search: {{workers: {workers}, batch_size: [{batches}]{accumulate}}}{alone}{unfilled}
{lr}
{pattern}
budget: {{profile: 3m}}
engine: local
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """The text of a job file, its command, and where its numbers come from."""

    text: str
    command: tuple[str, ...]
    remarks: tuple[str, ...]
    framework: Framework | None = None

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
    script = read(command, folder)
    words = _with_placeholders(command, script)
    batches = _batches(script)
    meets = script is None or script.meets or any("{workers}" in word for word in words)
    text = _TEMPLATE.format(
        name=_yaml(name),
        run=_yaml(line(words)),
        examples=f"examples: {examples}" if examples else "# examples: 60000      # in one epoch of the training data",
        target=_target(script),
        length=_length(script),
        workers=f"1..{cores}" if meets else "1",
        alone="" if meets else "     # no more: the script has nothing by which workers meet",
        unfilled="".join(f"\n# {name}: [..., ...] in search has the values for {{{name}}}" for name in unfilled(words)),
        batches=", ".join(map(str, batches)),
        accumulate=f", accumulate: [{_accumulate(script)}]" if _accumulate(script) > 1 else "",
        lr=_rate(script, asked=any("{lr}" in word for word in words) or _has_trainer(script)),
        pattern=_heard(script),
    )
    remarks = (*_remarks(script, words), *_open_axes(words), *_doubts(command, folder, script, meets=meets))
    return Draft(text, words, remarks, script.framework if script else None)


def missing_script(command: Sequence[str], folder: Path) -> str | None:
    """Return the Python script that a command names and that is not there, if any."""
    return next((word for word in command if word.endswith(".py") and not (folder / word).is_file()), None)


def _doubts(command: Sequence[str], folder: Path, script: Script | None, *, meets: bool) -> list[str]:
    """Return what keeps a command from being started, or from being started several times over."""
    if (missing := missing_script(command, folder)) is not None:
        return [f"there is no {missing} here, so nothing could be read of it: correct the line run"]
    if script is None or meets:
        return []
    return [f"workers is 1, as {script.name} has {NOT_MEETING}"]


def _open_axes(words: Sequence[str]) -> list[str]:
    """Return what to do about each placeholder that nothing fills yet."""
    return [
        f"nothing fills {{{name}}} of the command: give its values in the line search, {name}: [..., ...], "
        f"or by --axis {name}=...,... (write {{{{{name}}}}} for the braces themselves)"
        for name in unfilled(words)
    ]


def _with_placeholders(command: Sequence[str], script: Script | None) -> tuple[str, ...]:
    """Return the command with a placeholder for each number that one of the script's flags sets."""
    words = list(command)
    known = script.defaults if script else {}
    counts_steps = _steps(script) is not None
    for setting, flag in (script.flags if script else {}).items():
        placeholder = _PLACEHOLDERS.get(setting)
        rate_unknown = setting == "lr" and not {"lr", "batch_size"} <= known.keys()
        if placeholder is None or rate_unknown or any(placeholder in word for word in words):
            continue
        if setting == "accumulate" and _accumulate(script) == 1:
            continue
        if setting == "seed" and any(word.partition("=")[0] == flag.removesuffix("=") for word in words):
            continue  # a seed that its user has chosen
        if setting in ("epochs", "steps") and (setting == "steps") != counts_steps:
            continue
        words = _set(words, flag, placeholder)
    return tuple(words)


def _accumulate(script: Script | None) -> int:
    found = script.defaults.get("accumulate") if script else None
    return round(found.value) if found else 1


def _has_trainer(script: Script | None) -> bool:
    """Return whether the script's framework takes batch, rate and length as arguments of its own."""
    return script is not None and script.framework in ("transformers", "lightning")


def _heard(script: Script | None) -> str:
    """Return the line that says how cotune hears of the script: by its framework, or by what it prints itself."""
    if script is not None and script.framework is not None:
        return f"# {_FRAMEWORKS[script.framework]} tells progress and metrics by itself: cotune puts its callback in"
    found = _printed(script)
    if script is None or found is None:
        return _PATTERN
    quoted = found.pattern.replace("'", "''")
    return f"pattern: '{quoted}'   # as {script.name} prints it"


def _printed(script: Script | None) -> SuggestedPattern | None:
    """Return what reads the lines that a script prints: those of a metric, in the unit that its length is in."""
    if script is None or script.reports or script.framework is not None:
        return None
    unit = "step" if _steps(script) is not None else "epoch"
    found = suggested(script.prints, "accuracy", bare=unit, named=False)
    if found is None and unit == "epoch":
        found = score(script.epoch_lines, counted=True)
    found = found or score(script.prints, bare=unit) or suggested(script.prints, "loss", bare=unit)
    found = found or only_value(script.prints)
    if found is not None and epochs_are_steps((script.flags.get("epochs", ""), "{epochs}")):
        found = found.in_epochs
    return found if found is not None and f"?P<{unit}>" in found.pattern else None


def _set(words: list[str], flag: str, placeholder: str) -> list[str]:
    for place, word in enumerate(words):
        if word == flag and place + 1 < len(words):
            return [*words[: place + 1], placeholder, *words[place + 2 :]]
        if word.startswith(f"{flag.removesuffix('=')}="):
            return [*words[:place], f"{flag.removesuffix('=')}={placeholder}", *words[place + 1 :]]
    return [*words, flag + placeholder] if flag.endswith("=") else [*words, flag, placeholder]


def _batches(script: Script | None) -> list[int]:
    own = script.defaults.get("batch_size") if script else None
    if own is None:
        return list(_BATCHES)
    return sorted({max(1, round(own.value * times)) for times in _AROUND})


def _target(script: Script | None) -> str:
    if script is not None and script.framework is not None:
        names = script.metrics or ("eval_loss",)
        sign = "<=" if metric_names.better(names[0]) == "lower" else ">="
        return f"# target: {names[0]}{sign}LEVEL      # by the name that it is logged by: {', '.join(names)}"
    printed = _printed(script)
    if script is not None and printed is not None and printed.metric != "accuracy":
        sign = "<=" if metric_names.better(printed.metric) == "lower" else ">="
        return f"# target: {printed.metric}{sign}LEVEL      # as {script.name} prints it"
    if script is not None and printed is None and not script.evaluates_accuracy:
        return "# target: {metric: ..., at_most: ...}      # or at_least; by the name that the job tells it by"
    if script is not None and printed is not None and printed.pattern.endswith("%"):
        return f"target: {{metric: accuracy, at_least: 95}}      # per cent, as {script.name} prints it"
    return "target: {metric: accuracy, at_least: 0.95}"


def _steps(script: Script | None) -> str | None:
    """Return the length of a script that counts steps and no epochs, and whose batch is known."""
    known = script.defaults if script else {}
    if "steps" not in known or "epochs" in known or "batch_size" not in known:
        return None
    batch = round(known["batch_size"].value) * _accumulate(script)
    return f"{known['steps'].value:.0f} steps of {batch}       # {known['steps'].where}"


def _length(script: Script | None) -> str:
    if (steps := _steps(script)) is not None:
        return f"length: {steps}"
    epochs = script.defaults.get("epochs") if script else None
    if epochs is None:
        return "# max_epochs: 30       # the most that a run may take"
    return f"max_epochs: {max(1, round(epochs.value))}       # {epochs.where}"


def _rate(script: Script | None, *, asked: bool) -> str:
    """Return the line of the learning rate: what the script has by default, or a comment that asks for it."""
    known = script.defaults if script else {}
    if "lr" in known and "batch_size" in known:
        at, batch = known["lr"], round(known["batch_size"].value) * _accumulate(script)
        rule = rule_for(script)
        told = f"lr: {{at: {at.value:.10g}, global_batch: {batch}, rule: {rule.name}}}     # {at.where}; {rule.reason}"
        return told if asked else f"# {told}"
    why = (
        "fills {lr}: the rate that is known, at the global batch it is known at; rule: linear, sqrt, fixed or power(p)"
    )
    return f"# lr: {{at: RATE, global_batch: BATCH}}     # {why}"


def _remarks(script: Script | None, words: Sequence[str]) -> list[str]:
    """Return what was read of the script, and what is left to fill in."""
    if script is None:
        return []
    found = [f"{setting} {default.value:g} ({default.where})" for setting, default in script.defaults.items()]
    remarks = [f"read of {script.name}: {', '.join(found)}"] if found else []
    if script.framework is not None:
        remarks.append(f"it trains with {_FRAMEWORKS[script.framework]}: {_PUT_IN[script.framework]}")
    if (printed := _printed(script)) is not None:
        remarks.append(f"it prints lines such as {printed.line!r}, of which the pattern reads {printed.metric}")
        told = held_out_names(printed.line)
        if len(told) > 1:
            remarks.append(
                f"it tells {' and '.join(told)} of held-out data: name another in pattern and target to ask for it"
            )
    if script.framework == "transformers" and not script.metrics:
        remarks.append(
            "it seems never to evaluate: a target needs an eval_strategy, or counts on the training loss that it logs"
        )
    if any("{lr}" in word for word in words) and not {"lr", "batch_size"} <= script.defaults.keys():
        remarks.append(
            "the command asks for {lr}: fill in the line lr with the rate and the global batch it is known at"
        )
    return remarks


def _yaml(text: str) -> str:
    """Return a text as YAML in one line, quoted only where it must be."""
    return yaml.safe_dump(text, width=10_000, allow_unicode=True).removesuffix("\n").removesuffix("\n...")
