"""Many jobs on a cluster whose clock jumps: policies compared on the same trace."""

from __future__ import annotations

from cotune.cluster.simulate.outcome import Outcome, simulate

__all__ = ["Outcome", "simulate"]
