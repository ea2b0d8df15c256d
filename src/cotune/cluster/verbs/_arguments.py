"""What the words after `cotune simulate` mean: policies, choices, levels and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cotune import registry
from cotune.cli.options import numbers
from cotune.cluster.policy import Policy
from cotune.cluster.traces import Trace
from cotune.errors import UsageError
from cotune.units import seconds


def policy_names(policy: list[str] | None) -> list[str]:
    """Return the policies of all flags, 'fifo,srtf' and 'las(variant=pollux)'; fifo where none is named."""
    names = [name for text in policy or ["fifo"] for name in registry.several(text)]
    if not names:
        raise UsageError("--policy: name at least one; `cotune algorithms` lists them")
    return names


def policy_of(text: str, trace: Trace) -> Policy:
    """Return a policy with its settings."""
    try:
        policy: Any = registry.create("policy", text)
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from None
    # Without a history of its own a policy knows how long the jobs of this trace are, but not which is which.
    if hasattr(policy, "history") and not policy.history:
        policy = replace(policy, history=tuple(job.gpus * job.seconds for job in trace.jobs))
    found: Policy = policy
    return found


def pairs(only: list[str] | None) -> dict[str, str]:
    """Return the columns and values of 'cluster=02'."""
    found = [entry.partition("=") for entry in only or []]
    for name, equals, _ in found:
        if not equals:
            raise UsageError(f"cannot read --only {name!r}; write --only cluster=02")
    return {name: value for name, _, value in found}


def limits_of(deadlines: str) -> tuple[float, float]:
    """Return the least and the most of '0.5,1.5'."""
    least, _, most = deadlines.partition(",")
    try:
        limits = float(least), float(most or least)
    except ValueError:
        limits = 0.0, 0.0
    if not 0 < limits[0] <= limits[1] < float("inf"):
        raise UsageError(f"cannot read --deadlines {deadlines!r}; write --deadlines 0.5,1.5, times the run time")
    return limits


def noise_levels(noise: str | None) -> list[float]:
    """Return the levels of '0.1,0.3', from the least up, after none at all."""
    levels = sorted({0.0, *numbers(float, noise or "0", "--noise 0.1,0.3,1.0")})
    if levels[0] < 0 or levels[-1] > 10:
        raise UsageError(f"--noise {noise} must lie between 0 and 10")
    return levels


def seconds_of(text: str) -> float:
    """Return a duration that may be nothing."""
    return 0.0 if text in ("0", "0s") else seconds(text)
