"""What is asked of a training: its target, deadline and cost, and how sure of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Prefer = Literal["cheap", "fast", "accurate"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked: reach `target` within `deadline` seconds and `max_cost`, with `confidence`.

    `epochs` fixes the amount of work; without it a run may take up to `max_epochs`.
    """

    target: float | None = None
    deadline: float | None = None
    max_cost: float | None = None
    epochs: int | None = None
    max_epochs: int = 30
    confidence: float = 0.9
    prefer: Prefer = "cheap"

    @property
    def asked(self) -> tuple[float | None, ...]:
        """Return what must be met, None for what was not asked."""
        return self.target, self.deadline, self.max_cost, self.epochs

    @property
    def cap(self) -> int:
        """Return the epochs that a run takes unless it meets its target before."""
        return self.epochs or self.max_epochs
