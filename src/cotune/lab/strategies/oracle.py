"""The oracle: the cheapest config that meets the goal, by the truth itself."""

from __future__ import annotations

from dataclasses import dataclass

from cotune.lab.strategy import Decision, Lab


@dataclass(frozen=True, slots=True)
class Oracle:
    """Know the truth: the bound that no strategy can beat."""

    def decide(self, lab: Lab) -> Decision:
        return lab.hindsight()
