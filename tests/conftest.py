"""What all tests run with; the last lines of a session say what was left out, and why."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from browsers import browser
from left_behind import mark, nothing_left_by_a_failure, pytest_runtest_makereport, pytest_sessionfinish
from store.postgres_server import server, url

__all__ = ["browser", "nothing_left_by_a_failure", "pytest_runtest_makereport", "pytest_sessionfinish", "server", "url"]
mark()

# The same examples in every run, so that a change is judged by what it changed; HYPOTHESIS=explore looks for new ones.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
settings.register_profile("same", UNTIMED, derandomize=True)
settings.register_profile("few", UNTIMED, derandomize=True, max_examples=5)  # where the same tests run once more
settings.register_profile("explore", UNTIMED, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS", "same"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: programs under test hear Ctrl-C again
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # more threads than cores would wait for one another
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the program is started hundreds of times, and compiled once
os.environ["XDG_DATA_HOME"] = _data = tempfile.mkdtemp(prefix="cotune-data-")  # the user's own store is never touched
atexit.register(shutil.rmtree, _data, ignore_errors=True)


@pytest.fixture(scope="session")
def local() -> Iterator[Any]:
    """The local engine, whose server is shared by the tests of this process."""
    from cotune.run.engines.local import Local

    engine = Local(term_seconds=1.0)
    yield engine
    engine.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a group of tests on one worker: xdist names it where pytest 9.2 no longer looks for a test's id.

    Tests that may take the longest come first: one of them at the end would leave the other cores idle.
    """
    for item in items:
        if named := vars(item).pop("_nodeid", None):
            item._id = item.id.parse(named)
    items.sort(key=lambda item: -sum(marker.args[0] for marker in item.iter_markers("timeout")))


def pytest_unconfigure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput"):
        return
    reasons = Counter(_reason(report) for report in terminal.stats.get("skipped", ()))
    for reason, count in reasons.most_common():
        terminal.write_line(f"left out: {count} test{'s' if count > 1 else ''}: {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if not isinstance(report.longrepr, tuple):
        return str(report.longrepr)
    return report.longrepr[2].removeprefix("Skipped: ")
