"""How a job's learning rate goes, where its file does not say: as its script names it, read and never run.

    CosineAnnealingLR(optimizer, T_max=args.epochs), 0.5 * (1 + math.cos(math.pi * x))      cosine
    get_linear_schedule_with_warmup, lr_scheduler_type="linear", transformers' Trainer      linear
    OneCycleLR(...)                                                                         one_cycle

A rate that falls to the end of the run makes a short run no part of a longer one (`predict/annealing.py`). One whose
length stands in the script as a plain number ends there whatever a run is told, and counts as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotune.jobfile.script import Script, file_of, read
from cotune.types import Schedule

_LENGTHS = ("{epochs}", "{steps}", "{tokens}")
_NAMED: tuple[tuple[Schedule, re.Pattern[str]], ...] = (
    (
        "cosine",
        re.compile(
            r"CosineAnnealingLR\b(?!\([^)]*(?:T_max\s*=\s*|,\s*)\d[\d_]*\s*[,)])"
            r"|get_cosine_schedule\w*|lr_scheduler_type\s*=\s*[\"']cosine|cosine_decay\w*|CosineDecay\b"
            r"|(?:math|np|torch)\.cos\((?:math|np|torch)\.pi\b"
        ),
    ),
    (
        "linear",
        re.compile(r"get_linear_schedule\w*|lr_scheduler_type\s*=\s*[\"']linear|PolynomialLR\b|polynomial_decay\w*"),
    ),
    ("one_cycle", re.compile(r"OneCycleLR\b")),
)
_CONSTANT = re.compile(r"lr_scheduler_type\s*=\s*[\"'](?:constant|reduce)")
_DEFAULT = re.compile(r"""["']--[\w-]*sched[\w-]*["'][^)]*?\bdefault\s*=\s*["'](\w+)["']""", re.IGNORECASE)  # of a flag
_FLAG = re.compile(r"--[\w-]*sched[\w-]*", re.IGNORECASE)
_SAID: dict[str, Schedule] = {
    "constant": "constant",
    "cosine": "cosine",
    "linear": "linear",
    "onecycle": "one_cycle",
    "one_cycle": "one_cycle",
}


@dataclass(frozen=True, slots=True)
class FoundSchedule:
    """A schedule that the file leaves open, and where it was read."""

    name: Schedule
    where: str

    def __str__(self) -> str:
        how = "a cosine" if self.name == "cosine" else self.name.replace("_", " ")
        return (
            f"the learning rate falls to the end of each run ({how}: {self.where}), so a plan chooses the length; "
            "`schedule: constant` says otherwise"
        )


def schedule_of(command: Sequence[str], folder: Path) -> FoundSchedule | None:
    """Return the schedule that a command or its script names, if one alone; None where none ends with the run."""
    if (said := _in_command(command)) is not None:
        return None if said.name == "constant" else said
    file, script = file_of(command, folder), read(command, folder)
    if file is None or script is None or not _is_told_its_length(command, script):
        return None
    text = file.read_text(errors="replace")
    if (default := _DEFAULT.search(text)) is not None:
        chosen = _SAID.get(default[1].lower())
        return FoundSchedule(chosen, f"default of {script.name}") if chosen and chosen != "constant" else None
    found = [(name, match[0]) for name, sign in _NAMED if (match := sign.search(text))]
    if not found and script.framework == "transformers" and not _CONSTANT.search(text):
        return FoundSchedule("linear", "transformers' default")
    return (
        FoundSchedule(found[0][0], f"{found[0][1].replace(chr(34), '')} of {script.name}") if len(found) == 1 else None
    )


def _is_told_its_length(command: Sequence[str], script: Script) -> bool:
    return script.framework == "transformers" or any(name in word for word in command for name in _LENGTHS)


def _in_command(command: Sequence[str]) -> FoundSchedule | None:
    for word, after in zip(command, (*command[1:], ""), strict=False):
        name, sign, value = word.partition("=")
        chosen = _SAID.get((value if sign else after).lower().replace("-", "_"))
        if _FLAG.fullmatch(name) and chosen is not None:
            return FoundSchedule(chosen, f"{name} of the command")
    return None
