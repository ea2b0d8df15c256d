"""What a job's command lets cotune set: by placeholders, or by variables that its scripts read."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from cotune.errors import UsageError, suggestion
from cotune.jobfile import script
from cotune.types import ASYNCHRONOUS, Job

_BATCH_FLAG = re.compile(r"(?:--batch[-_]?size|--bs|-b)(?:=|$)")
_PLACEHOLDER = re.compile(r"(?<!\{)\{(\w+)\}")
_NUMBERS = (  # that every start has
    *("batch_size", "global_batch", "micro_batch", "workers", "servers", "accumulate", "dp"),
    *("epochs", "steps", "tokens", "seed", "lr"),
)
_STEPS = re.compile(r"iter|step|update", re.IGNORECASE)
_PLAIN = re.compile(r"[\w{}=./:,@%+-]+")
_LAUNCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_SHARING = ("WORLD_SIZE", "RANK", "TF_CONFIG", "MultiWorker", "jax.distributed", "mpi4py", "horovod")
_SERVED = ("cotune.torch", "cotune import torch")  # what reads the axis `asynchronous` for a script
_KEEPING = ("COTUNE_CHECKPOINT", "cotune.callbacks", "cotune.workloads")
REPORT = "report"
_CHECKPOINTING = ("transformers", "lightning")  # whose checkpoints a start that cotune stops leaves and goes on from
_SETTABLE: dict[script.Framework, tuple[str, ...]] = {  # through a framework's own arguments
    "transformers": ("batch_size", "accumulate", "lr", "length", "precision"),
    "lightning": ("batch_size", "accumulate", "lr", "length", "precision"),
    "accelerate": ("accumulate", "precision"),
}
_LAUNCHER_FLAGS = {  # of torchrun and of accelerate, that take no value
    *("--standalone", "--no-python", "--no_python", "--run-path", "--run_path", "-m", "--module"),
    *("--multi_gpu", "--multi-gpu", "--cpu", "--use_fsdp", "--use-fsdp", "--use_deepspeed", "--use-deepspeed", "-q"),
}


def takes(job: Job, name: str) -> bool:
    """Return whether a value of this name reaches the job."""
    if name == ASYNCHRONOUS and (_is_module(job) or reads_environment(job, *_SERVED)):
        return True
    return _is_taken(job, name) or name in set_by_trainer(job)


def _is_taken(job: Job, name: str) -> bool:
    """Return whether the command has a placeholder of this name, or a script of it reads the variable."""
    return any("{" + name + "}" in word for word in job.command) or reads_environment(job, f"COTUNE_{name.upper()}")


def instead(name: str) -> str:
    """Return what else would take the value of a named axis, where something would."""
    return ", and no script of it calls cotune.torch.parallel, which reads it" if name == ASYNCHRONOUS else ""


def shares_work(job: Job) -> bool:
    """Return whether workers may share the work by other means than torch's process groups, as far as can be read."""
    return _is_module(job) or takes(job, "workers") or reads_environment(job, *_SHARING)


def copied_script(job: Job) -> str | None:
    """Return the name of the script whose workers would be copies, as it has nothing by which they could meet."""
    found = _script(job)
    return None if found is None or found.meets or shares_work(job) else found.name


def may_take_seed(job: Job) -> bool:
    """Return whether a seed may reach what a script seeds itself, as far as can be read."""
    return _is_module(job) or takes(job, "seed") or reads_environment(job, "import cotune", "from cotune")


def may_keep_checkpoints(job: Job) -> bool:
    """Return whether a job that is told to stop may leave a checkpoint then, as far as can be read."""
    found = _script(job)
    trainer = found is not None and found.framework in _CHECKPOINTING
    return job.hears and (trainer or _is_module(job) or reads_environment(job, *_KEEPING))


def _is_module(job: Job) -> bool:
    """Return whether the command runs a module, of whose package not all is looked into."""
    flags = itertools.takewhile(lambda word: word.startswith("-"), job.command[1:])
    return "-m" in flags


def put_in(job: Job) -> tuple[str, ...]:
    """Return what cotune puts into the framework of a script (`callbacks.injected`): its callback, and numbers.

    The callback goes where nothing else tells what happens: no pattern, and no word of cotune in the script.
    """
    found = _script(job)
    speaks = found is not None and reads_environment(job, "cotune.report", "cotune.callbacks", "import cotune")
    report = (REPORT,) if job.hears and not speaks else ()
    return (*report, *set_by_trainer(job))


def set_by_trainer(job: Job) -> tuple[str, ...]:
    """Return the numbers that reach a script as its framework's own arguments: those that the command does not take."""
    found = _script(job)
    settable = _SETTABLE.get(found.framework, ()) if found is not None and found.framework else ()
    length = "steps" if job.counting.unit == "steps" else "epochs"
    names = (length if name == "length" else name for name in settable)
    return tuple(name for name in names if not _is_taken(job, name))


def _script(job: Job) -> script.Script | None:
    return script.read(job.command, Path(job.folder))


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
        f"write: {line(instead)} (or let the script read COTUNE_BATCH_SIZE)"
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


def epochs_are_steps(command: Sequence[str]) -> bool:
    """Return whether what the command is told by {epochs} is called steps or iterations: `--iterations {epochs}`."""
    words = [part for word in command for part in word.split("=", 1)]
    return any(after == "{epochs}" and _STEPS.search(flag) for flag, after in itertools.pairwise(words))


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


def reads_environment(job: Job, *names: str) -> bool:
    """Return whether a script of the command takes a number from one of these variables."""
    files = script.script_files(job.command, Path(job.folder))
    texts = (file.read_text(errors="replace") for file in files)
    return any(name in text for text in texts for name in names)
