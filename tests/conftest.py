"""The last lines of a test session say what was left out, and why."""

from __future__ import annotations

from collections import Counter

import pytest


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
