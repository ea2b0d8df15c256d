"""What all simulations of one call have in common: the jobs, the cluster, and what happens to them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotune.cluster.policy import Policy, Submission
from cotune.cluster.simulate.failures import Failures
from cotune.cluster.simulate.outcome import Outcome, simulate
from cotune.cluster.simulate.world import mistaken
from cotune.errors import UsageError
from cotune.types import Cluster


@dataclass(frozen=True)
class SimulationSetting:
    """Jobs on a cluster, to be played under one policy after the other."""

    jobs: Sequence[Submission]
    cluster: Cluster
    placement: str | None = None
    restart: float = 0.0
    failures: Failures | None = None
    seed: int = 0

    def play(self, policy: Policy, noise: float = 0.0, *, keep_spells: bool = False) -> Outcome:
        """Return what becomes of the jobs under a policy whose forecasts are off by so much."""
        if len(self.cluster.devices) > 1 and getattr(policy, "one_kind", False):
            kinds = ", ".join(device.name for device in self.cluster.devices)
            name = type(policy).__name__.lower()
            raise UsageError(f"{name} knows one kind of device, the cluster has {kinds}; gavel and joint know several")
        return simulate(
            self.jobs,
            self.cluster,
            policy,
            placement=self.placement,
            restart=self.restart,
            believe=mistaken(noise, len(self.jobs), self.seed),
            keep_spells=keep_spells,
            failures=self.failures,
            seed=self.seed,
        )
