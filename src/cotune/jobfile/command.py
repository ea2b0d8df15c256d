"""What a job lets cotune set: by placeholders of its command, variables that it reads, or its framework's arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from cotune.errors import UsageError, suggestion
from cotune.types import ASYNCHRONOUS, Framework, Job

_BATCH_FLAG = re.compile(r"(?:--batch[-_]?size|--bs|-b)(?:=|$)")
_PLACEHOLDER = re.compile(r"(?<!\{)\{(\w+)\}")
_NUMBERS = (  # that every start has
    *("batch_size", "global_batch", "micro_batch", "workers", "servers", "accumulate", "dp"),
    *("epochs", "steps", "tokens", "seed", "lr"),
)
_PLAIN = re.compile(r"[\w{}=./:,@%+-]+")
_LAUNCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
REPORT = "report"
_OWN_WORKLOADS = "cotune.workloads."  # which read every variable, and leave checkpoints
_CHECKPOINTING = ("transformers", "lightning")  # whose checkpoints a start that cotune stops leaves and resumes from
_SETTABLE: dict[Framework, tuple[str, ...]] = {  # through a framework's own arguments
    "transformers": ("batch_size", "accumulate", "lr", "length", "precision"),
    "lightning": ("batch_size", "accumulate", "lr", "length", "precision"),
    "accelerate": ("accumulate", "precision"),
}
_LAUNCHER_FLAGS = {  # of torchrun and of accelerate, that take no value
    *("--standalone", "--no-python", "--no_python", "--run-path", "--run_path", "-m", "--module"),
    *("--multi_gpu", "--multi-gpu", "--cpu", "--use_fsdp", "--use-fsdp", "--use_deepspeed", "--use-deepspeed", "-q"),
}


def takes(job: Job, name: str) -> bool:
    """Return whether a value of this name reaches the job: by a placeholder, a variable or its framework."""
    return _is_taken(job, name) or name in set_by_framework(job)


def _is_taken(job: Job, name: str) -> bool:
    """Return whether the command has a placeholder of this name, or the job file says that its script reads it."""
    own = name == ASYNCHRONOUS and _is_ours(job)
    return own or name in job.reads or any("{" + name + "}" in word for word in job.command)


def _is_ours(job: Job) -> bool:
    return any(word.startswith(_OWN_WORKLOADS) for word in job.command)


def may_take_seed(job: Job) -> bool:
    """Return whether a seed may reach what a script seeds itself."""
    return takes(job, "seed") or _is_ours(job)


def may_keep_checkpoints(job: Job) -> bool:
    """Return whether a job that is asked to stop may leave a checkpoint then."""
    return job.hears and (job.framework in _CHECKPOINTING or takes(job, "checkpoint") or _is_ours(job))


def put_in(job: Job) -> tuple[str, ...]:
    """Return what cotune puts into the framework of a script (`callbacks.injected`): its callback, and numbers.

    The callback goes where neither a pattern nor log files report what happens.
    """
    return (*((REPORT,) if job.hears and job.framework else ()), *set_by_framework(job))


def set_by_framework(job: Job) -> tuple[str, ...]:
    """Return the numbers that reach a script as its framework's own arguments: those that the command does not take."""
    length = "steps" if job.counting.unit == "steps" else "epochs"
    settable = _SETTABLE[job.framework] if job.framework else ()
    names = (length if name == "length" else name for name in settable)
    return tuple(name for name in names if not _is_taken(job, name))


def require_settable(job: Job, source: str, axes: Collection[str] = ()) -> None:
    """Refuse a command whose workers another launcher starts, or whose batch cotune cannot set; say what to write.

    `axes` are those searched, by names of the user's own too.
    """
    own = without_launcher(job.command)
    if own != job.command:
        launcher = Path(job.command[0]).name if Path(job.command[0]).name == "accelerate" else "torchrun"
        raise UsageError(
            f"{source}: cotune starts the workers itself, so leave out {launcher}; write: {line(_with_batch(own))}"
        )
    if any(takes(job, name) for name in ("batch_size", "micro_batch", "global_batch")):
        return
    _refuse_misspelt(job, source, axes)
    variable = next((f"{name}={value}" for name, value in job.env if _PLACEHOLDER.search(value)), None)
    instead = ("env", variable, *own) if variable else _with_batch(own)
    what = "env is handed on as it is, and the command" if variable else "the command"
    raise UsageError(
        f"{source}: {what} has no {{batch_size}}, so cotune cannot set the batch; "
        f"write: {line(instead)} (or, in cotune.yaml, `reads: [batch_size]` for a script that reads COTUNE_BATCH_SIZE, "
        "`framework: transformers` for its Trainer; `cotune init` finds both)"
    )


def _refuse_misspelt(job: Job, source: str, axes: Collection[str]) -> None:
    """Refuse a placeholder that is nearly one that there is."""
    for name in unfilled(job.command, axes):
        if near := suggestion(name, _NUMBERS):
            raise UsageError(f"{source}: unknown placeholder {{{name}}}{near}")


def unfilled(command: Sequence[str], axes: Collection[str] = ()) -> tuple[str, ...]:
    """Return the placeholders of a command that no number fills, nor any of these axes."""
    asked = dict.fromkeys(_PLACEHOLDER.findall(" ".join(command)))
    return tuple(name for name in asked if name not in (*_NUMBERS, *axes))


def without_launcher(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command that torchrun or `accelerate launch` would start once per worker, or the command itself."""
    words = list(command)
    if words and Path(words[0]).name == "torchrun":
        rest, python = words[1:], "python"
    elif len(words) > 1 and (Path(words[0]).name, words[1]) == ("accelerate", "launch"):
        rest, python = words[2:], "python"
    elif len(words) > 2 and words[1] == "-m" and words[2] in _LAUNCH_MODULES:
        rest, python = words[3:], words[0]
    else:
        return tuple(command)
    start = [python]
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-m", "--module"):
            start.append("-m")
        elif option in ("--no-python", "--no_python"):
            start = []
        elif option not in _LAUNCHER_FLAGS and "=" not in option and rest:
            rest.pop(0)
    return (*start, *(rest or ["train.py"]))


def line(command: Sequence[str]) -> str:
    """Return a command as one would type it, placeholders left readable."""
    return " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in command)


def _with_batch(command: Sequence[str]) -> list[str]:
    """Return the command with a placeholder for the batch, in the place of the number it has."""
    words = list(command)
    if any("{batch_size}" in word or "{global_batch}" in word for word in words):
        return words
    for place, word in enumerate(words):
        if _BATCH_FLAG.match(word):
            if "=" in word:
                words[place] = word.partition("=")[0] + "={batch_size}"
            elif place + 1 < len(words):
                words[place + 1] = "{batch_size}"
            return words
    return [*words, "--batch-size={batch_size}"]
