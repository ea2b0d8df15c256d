"""Which type is the CPU, and which the accelerator, by name or else by price."""

from __future__ import annotations

from cotune.placement.problems import Problem


def cpu(problem: Problem) -> int:
    """Return the type named cpu-something, or else the cheapest."""
    named = [kind for kind, name in enumerate(problem.types) if "cpu" in name.lower()]
    return min(named or range(len(problem.types)), key=lambda kind: (problem.prices[kind], kind))


def accelerator(problem: Problem) -> int:
    """Return the dearest type that is not the CPU (the CPU where there is nothing else)."""
    others = [kind for kind in range(len(problem.types)) if kind != cpu(problem)]
    return max(others or [0], key=lambda kind: (problem.prices[kind], kind))
