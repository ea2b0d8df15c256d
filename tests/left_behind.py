"""What a test leaves running: a failing test's processes are ended at once, all others when the session ends.

Every process that a session starts, however it detaches itself, inherits a variable by which it is known.
"""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "COTUNE_TEST_SESSION"
_MARK = f"{os.getpid()}"
_FAILED = pytest.StashKey[bool]()
_OURS = "multiprocessing.resource_tracker"  # Python's own, which lives as long as the interpreter


def mark() -> None:
    """Have all that is started from now on bear the mark of this session."""
    os.environ[VARIABLE] = _MARK


def processes() -> set[int]:
    """Return the ids of all processes there are."""
    with os.scandir("/proc") as entries:
        return {int(entry.name) for entry in entries if entry.name.isdigit()}


def bearing(text: str) -> list[int]:
    """Return the processes, the oldest first, that were started with a text in their environment."""
    found = []
    for pid in sorted(processes()):
        with contextlib.suppress(OSError):
            if text.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


def writing_to(logs: str) -> list[int]:
    """Return the processes, the oldest first, whose output goes to a file that matches."""
    found = []
    for pid in sorted(processes()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/fd/1").readlink().match(logs):
                found.append(pid)
    return found


def ours(candidates: set[int]) -> dict[int, str]:
    """Return which of some processes this session has started, with their commands."""
    found = {}
    for pid in candidates - {os.getpid()}:
        try:
            marked = f"{VARIABLE}={_MARK}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has ended, or is somebody else's
            continue
        if marked and command and _OURS not in command:
            found[pid] = command
    return found


def end(left: dict[int, str]) -> None:
    """Kill what was left."""
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when in ("setup", "call"):  # type: ignore[attr-defined]
        item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed  # type: ignore[attr-defined]
    return report


@pytest.fixture(autouse=True)
def nothing_left_by_a_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the processes that a failing test has left; those of fixtures of a wider scope were there before."""
    before = processes()
    yield
    if request.node.stash.get(_FAILED, False) and (left := ours(processes() - before)):
        end(left)
        warnings.warn(f"ended what {request.node.nodeid} left: {', '.join(left.values())[:300]}", stacklevel=1)


def pytest_sessionfinish() -> None:
    end(ours(processes()))
