"""What all simulations of one call have in common: the jobs, the cluster, and what happens to them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cotune.cluster.policy import Active, Policy, Submission
from cotune.cluster.simulate.beliefs import mistaken
from cotune.cluster.simulate.failures import Failures
from cotune.cluster.simulate.fractions import parts_per_gpu
from cotune.cluster.simulate.outcome import Outcome, simulate
from cotune.cluster.simulate.why import ASSUMED_SPREAD, Explanation, Scene, explain
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

    def explain(self, name: str, at: float, policy: Policy, noise: float) -> Explanation:
        """Return where a job stands at a time, and why."""
        if parts_per_gpu(self.jobs) > 1 or self.failures is not None:
            raise UsageError("--why knows whole GPUs that do not fail: leave out --failures, and parts of GPUs")
        believed = mistaken(noise, len(self.jobs), self.seed)
        whole = {job.name: job for job in self.jobs}

        def believe(job: Submission, number: int) -> Active:
            return replace(believed(whole[job.name], number), job=job)

        def play(jobs: Sequence[Submission], until: float) -> Outcome:
            return simulate(
                jobs,
                self.cluster,
                policy,
                placement=self.placement,
                restart=self.restart,
                believe=believe,
                keep_spells=True,
                until=until,
            )

        return explain(name, at, Scene(self.jobs, self.cluster, policy, play, noise or ASSUMED_SPREAD))
