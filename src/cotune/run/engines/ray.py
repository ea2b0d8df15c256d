"""The Ray engine: one actor per worker and per parameter server, on the bundles of a placement group.

    start ─▶ placement group ─▶ actors introduce themselves ─▶ each hosts its worker
    wait  ◀─ Started, Reported, Ended: from what the actors tell of their workers' files

Ranks are counted node by node. A node that is lost ends the launch at once, by its name.
Nothing of the engine is in the path of a training step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cotune.errors import UsageError, missing_extra
from cotune.run.launch import TERM_SECONDS, Launch, PolledEngine
from cotune.run.remote import prepared_launch
from cotune.types import Failure

if TYPE_CHECKING:
    from cotune.run.ray.cluster import RayCluster
    from cotune.run.ray.launch import Bundles, RayLaunch


@dataclass
class Ray(PolledEngine["RayLaunch"]):
    """Worker processes on the nodes of a Ray cluster, an existing one or a private one.

    `address` is the cluster's (RAY_ADDRESS, else a private cluster, started with the
    arguments `private` of ray.init); `cpus` is what one worker gets, `strategy` how workers
    are placed on nodes (PACK, SPREAD, STRICT_PACK, STRICT_SPREAD), `patience` how many
    seconds they may wait for room; `runtime_env` is Ray's, to ship the job's folder to
    nodes that do not share it.
    """

    address: str | None = None
    cpus: float = 1.0
    strategy: str = "PACK"
    patience: float = 60.0
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    private: Mapping[str, Any] = field(default_factory=dict)
    poll: float = 0.25
    term_seconds: float = TERM_SECONDS

    def __post_init__(self) -> None:
        strategies = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
        if self.strategy not in strategies:
            raise UsageError(f"the ray engine's strategy is one of {', '.join(strategies)}, not {self.strategy!r}")
        if self.cpus <= 0:
            raise UsageError(f"the ray engine needs cpus above 0 for each worker, not {self.cpus:g}")
        self._cluster: RayCluster | None = None
        super().__post_init__()

    def start(self, launch: Launch) -> None:
        """Start a launch; what cannot work is said now, before anything is placed."""
        self._refuse_twice(launch.id)
        with prepared_launch(launch, self.term_seconds, lambda _: self._asked(launch)) as (group, monitor, asked):
            from cotune.run.ray.launch import RayLaunch

            self._running[launch.id] = RayLaunch(monitor, group, asked, self.strategy, dict(self.runtime_env))

    def _asked(self, launch: Launch) -> Bundles:
        """Return what a launch asks of the cluster."""
        self._connect()
        from cotune.run.ray.launch import ask

        return ask(launch.config, self.cpus)

    def stop(self, launch: str, grace: float = 5.0) -> None:
        """Ask a launch to end by its stop file, and end it after `grace` seconds."""
        running = self._running.get(launch)
        if running is None:
            return
        running.monitor.stopped = True
        running.ask_to_stop()
        running.monitor.terminate_at = self.now() + (grace if running.monitor.begun else 0.0)

    def room(self, device: str) -> int:
        """Return how many workers of a device the cluster holds now, when nothing else runs on it."""
        self._connect()
        from cotune.run.ray.launch import room

        return room(device, self.cpus)

    def close(self) -> None:
        """End everything this engine started, and leave the cluster."""
        for running in self._running.values():
            running.end()
            running.monitor.lease.release()
        self._running.clear()
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = None

    def _connect(self) -> None:
        if self._cluster is not None:
            return
        try:
            from cotune.run.ray.cluster import RayCluster
        except ModuleNotFoundError as error:
            if error.name != "ray":
                raise
            raise missing_extra("the ray engine needs Ray, which", "ray") from None
        self._cluster = RayCluster(self.address, self.private)

    def _listen(self, timeout: float) -> None:
        """Wait until an actor has something to tell, and write it into the launches' folders."""
        if not self._running:
            time.sleep(timeout)
            return
        from cotune.run.ray.launch import listen

        if not listen(self._running.values(), timeout):
            time.sleep(timeout)

    def _attend(self, running: RayLaunch) -> None:
        """Take in what a launch tells, and end it when it is over or when it is time."""
        monitor, now = running.monitor, self.now()
        self._events.extend(monitor.look(now))
        if running.lost is None and not running.placed and now > monitor.since + self.patience:
            running.lost = running.no_room(self.patience)
        if running.lost is not None or running.over or (monitor.settled(now) and not monitor.all_done):
            self._end(running)
        elif monitor.all_done:
            running.release()
        elif monitor.time_is_up(now):
            self._terminate(running)

    def _terminate(self, running: RayLaunch) -> None:
        monitor = running.monitor
        if monitor.spoiled or not monitor.begun or monitor.terminating:
            self._end(running)
            return
        monitor.terminating = True
        running.terminate()
        monitor.terminate_at = self.now() + 2 * self.term_seconds

    def _end(self, running: RayLaunch) -> None:
        monitor, at = running.monitor, self.now()
        running.end()
        self._events.extend(monitor.last_events(self.now()))
        why = running.lost or monitor.why()
        if why is None and not monitor.all_done and not monitor.terminating:
            why = Failure("its workers ended without a word")
        del self._running[monitor.launch.id]
        self._events.append(monitor.concluded(at, why))
