"""Why a launch failed: its cause, and a line that a user can act on.

The line starts with `out of memory`, or with the rank and its error, exit code or signal.
Out of memory is told by the error, or by the system's count of kills. Of signals, those
that somebody sends are no error of the job, nor is a device that whoever had it before has not let go yet.
"""

from __future__ import annotations

import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

from cotune.run.local.messages import Program, Record
from cotune.types import Cause, Failure

_MEMORY_WORDS = re.compile(r"out of memory|can't allocate memory|cannot allocate memory", re.IGNORECASE)
_MEMORY_ERRORS = ("MemoryError", "OutOfMemoryError", "_ArrayMemoryError")
_REFUSED = re.compile(r"unrecognized arguments|arguments are required|no such option", re.IGNORECASE)  # by any config
_DEVICE_BUSY = re.compile(r"device\(s\) is/are busy or unavailable|MPS server is not ready", re.IGNORECASE)
_BUSY_LINES = 8  # of a log, that end with what torch has to add
_SENT = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGSTOP)
_LOG_BYTES = 4096


def reason(folder: Path, rank: int, memory_kills: int) -> Failure:
    """Return why a rank failed; `memory_kills` is how many processes the system ended for memory meanwhile."""
    record = Record.read(folder, rank)
    if record is None:
        return Failure(f"rank {rank} ended without a word")
    if record.signal is not None:
        return _by_signal(rank, record.signal, memory_kills)
    text = _one_line(record.message or "")
    if record.error in _MEMORY_ERRORS or _MEMORY_WORDS.search(text):
        return _no_memory(rank, text or record.error or "")
    if record.error and record.error != "SystemExit":
        cause = Cause.BUSY if _DEVICE_BUSY.search(text) else Cause.JOB
        where = f" ({record.where})" if record.where else ""
        return Failure(f"rank {rank} crashed: {record.error}{': ' + text if text else ''}{where}", cause)
    said = text or last_line(folder, rank)
    if _MEMORY_WORDS.search(said):
        return _no_memory(rank, said)
    busy = next(filter(_DEVICE_BUSY.search, last_lines(folder, rank, _BUSY_LINES)), "")
    cause = Cause.UNHEARD if _REFUSED.search(said) else Cause.BUSY if busy else Cause.JOB
    said = busy or said
    return Failure(f"rank {rank} ended with exit code {record.exit_code}{': ' + said if said else ''}", cause)


def foreign(why: Failure, program: Program) -> Failure:
    """Return a failure with a hint where a module was missing in an interpreter that is not ours."""
    if program.kind != "exec" or "ModuleNotFoundError" not in why.words:
        return why
    return replace(why, words=f"{why} (in {program.target}; cotune itself runs in {sys.executable})")


def aborted(ranks: list[tuple[int, int]]) -> str | None:
    """Return the warning about workers that were done, but then ended by a signal."""
    words = [f"rank {rank} ended by {_name(number)}" for rank, number in ranks]
    return f"{', '.join(words)} after its work was done" if words else None


def memory_kills() -> int:
    """Return how many processes the system has ended for lack of memory since it started."""
    try:
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def last_line(folder: Path, rank: int) -> str:
    """Return the last line that a rank wrote, or nothing."""
    return next(iter(last_lines(folder, rank, 1)), "")


def last_lines(folder: Path, rank: int, count: int) -> list[str]:
    """Return the last lines that a rank wrote, as many as there are, without empty ones."""
    try:
        with (folder / f"rank-{rank}.log").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LOG_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except FileNotFoundError:
        return []
    return [_one_line(line) for line in lines if line.strip()][-count:]


def _no_memory(rank: int, said: str) -> Failure:
    return Failure(f"out of memory on rank {rank}: {said}", Cause.MEMORY)


def _by_signal(rank: int, number: int, memory_kills: int) -> Failure:
    if number == signal.SIGKILL and memory_kills > 0:
        return _no_memory(rank, "the system ended it (SIGKILL)")
    hint = "; if nobody sent it, the system may lack memory" if number == signal.SIGKILL else ""
    cause = Cause.OUTSIDE if number in _SENT else Cause.JOB
    return Failure(f"rank {rank} was ended by {_name(number)}{hint}", cause)


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
