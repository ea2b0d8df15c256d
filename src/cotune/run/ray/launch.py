"""One launch on a Ray cluster while it runs: its placement group, its actors, what they told.

    placing ─▶ introduced ─▶ running ─▶ over        each step is a reply that Ray delivers

A worker that fails because its peer's node is gone says so before Ray does; so when a
worker fails, every actor is asked once more, and a lost one explains the failure.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cotune.errors import UsageError
from cotune.run.group_member import GroupMember, Peer
from cotune.run.host import RELEASED
from cotune.run.local.messages import Group, Record, write_whole
from cotune.run.ray.actor import LOOK_SECONDS, News, Place, Worker
from cotune.run.ray.cluster import bundle, first_line, fitting, listens
from cotune.run.reasons import last_line, reason
from cotune.run.remote import STOP, RemoteLaunch
from cotune.types import Cause, Config, Failure

_NEWS_SECONDS = 1.0
_GONE_SECONDS = 1.0
_ANSWER_SECONDS = 5.0  # for an actor


Bundles = list[dict[str, float]]  # of a launch: one for each worker, then one for each server


def ask(config: Config, cpus: float) -> Bundles:
    """Return what the workers of a config ask of the cluster."""
    nodes = [node["Resources"] for node in _alive()]
    workers = [bundle(stage.device, cpus, nodes) for stage in config.stages for _ in range(stage.workers)]
    servers = [bundle("cpu", cpus, nodes)] * config.servers
    return [*workers, *servers]


class RayLaunch:
    """A launch's actors and what is expected of them next."""

    def __init__(
        self, monitor: RemoteLaunch, group: Group, bundles: Bundles, strategy: str, runtime_env: dict[str, Any]
    ) -> None:
        self.monitor, self.group, self.bundles, self.runtime_env = monitor, group, bundles, runtime_env
        self.lost: Failure | None = None
        self.actors: list[Any] = []
        self.places: list[Place] = []
        self.ended: set[int] = set()
        self._released = False
        self.silent: set[int] = set()
        self.expected: dict[Any, int] = {}  # reply -> which actor gives it
        self._introduced: dict[int, Place] = {}
        self._placement: PlacementGroup = placement_group(bundles, strategy=strategy)
        self._make_actors()

    @property
    def placed(self) -> bool:
        return bool(self.places)

    @property
    def over(self) -> bool:
        """Say whether all workers have ended; servers are then still to be ended."""
        return self.ended.issuperset(self._workers)

    @property
    def _workers(self) -> range:
        return range(self.monitor.workers)

    def take(self, reply: Any) -> None:
        """Take in a reply that has come, and ask for the next."""
        which = self.expected.pop(reply)
        try:
            told = ray.get(reply)
        except RayError as error:
            self.silent.add(which)
            self.lost = self.lost or self._loss(which, error)
            return
        if isinstance(told, Place):
            self._introduced[which] = told
            if len(self._introduced) == len(self.actors):
                self._begin()
        elif told is not None:
            self._write(told)
            if told[1]:
                self.ended.add(which)
                if Record.read(self.monitor.folder, which) is None:
                    folder = self.monitor.folder
                    self.lost = self.lost or Failure(f"{reason(folder, which, 0)}: {last_line(folder, which)}")
            else:
                self._ask_news(which)

    def ask_to_stop(self) -> None:
        self._tell("mark", STOP)

    def release(self) -> None:
        """Let the workers go, which wait until all are done."""
        if not self._released:
            self._released = True
            self._tell("mark", RELEASED)

    def terminate(self) -> None:
        """Ask the workers to end; they may need the servers for that."""
        self._tell("signal", int(signal.SIGTERM), ranks=self._workers)

    def end(self) -> None:
        """End what still runs, hear the last of it, and give back its place."""
        if self.lost is None and self.placed:
            self._hear_out()
        replies = [
            actor.end.remote() for rank, actor in enumerate(self.actors) if self.placed and rank not in self.silent
        ]
        if replies:
            ray.wait(replies, num_returns=len(replies), timeout=_ANSWER_SECONDS)
        for actor in self.actors:
            ray.kill(actor)
        with contextlib.suppress(RayError):
            remove_placement_group(self._placement)
        self.expected.clear()

    def no_room(self, patience: float) -> Failure:
        """Return why the workers could not be placed."""
        config = self.monitor.launch.config
        kinds = [tuple(sorted(asked.items())) for asked in self.bundles[: config.workers]]
        wanted = Counter(kinds)
        nodes = _listening()
        scarce = min(wanted, key=lambda kind: fitting(dict(kind), nodes) - wanted[kind])
        asked, most = dict(scarce), fitting(dict(scarce), nodes)
        each = ", ".join(f"{name} {amount:g}" for name, amount in asked.items())
        lacking = most < wanted[scarce]
        why = f"the cluster holds at most {most} of them" if lacking else "others use it"
        count = f"{wanted[scarce]} workers of {each} each"
        if config.servers:
            count += f" and {config.servers} servers of {self.bundles[-1]['CPU']:g} CPU"
        words = f"no room on the Ray cluster for {count} after {patience:g} s: {why}"
        return Failure(words, Cause.OUTSIDE, most if lacking and len(wanted) == 1 else None)

    def _make_actors(self) -> None:
        remote: Any = ray.remote(Worker)
        options = {"runtime_env": self.runtime_env} if self.runtime_env else {}
        for index, resources in enumerate(self.bundles):
            strategy = PlacementGroupSchedulingStrategy(self._placement, placement_group_bundle_index=index)
            asked = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")}
            actor = remote.options(
                num_cpus=resources["CPU"],
                num_gpus=resources.get("GPU", 0),
                resources=asked,
                scheduling_strategy=strategy,
                max_concurrency=4,
                max_restarts=0,
                **options,
            ).remote()
            self.actors.append(actor)
            self.expected[actor.introduce.remote(self.group.cwd, str(self.monitor.folder))] = index

    def _begin(self) -> None:
        """Give each actor its rank, workers first, stage by stage and node by node, and start them."""
        nodes = list(dict.fromkeys(place.node for _, place in sorted(self._introduced.items())))
        config = self.monitor.launch.config
        stages = [number for number, stage in enumerate(config.stages) for _ in range(stage.workers)]

        def place_in_order(index: int) -> tuple[bool, int, int]:
            is_server = index not in self._workers
            return is_server, 0 if is_server else stages[index], nodes.index(self._introduced[index].node)

        order = sorted(self._introduced, key=place_in_order)
        self.actors = [self.actors[index] for index in order]
        self.places = [self._introduced[index] for index in order]
        self.lost = self._blind()
        if self.lost is not None:
            return
        peers = tuple(Peer(nodes.index(place.node), place.host, place.port) for place in self.places)
        for rank, (actor, place) in enumerate(zip(self.actors, self.places, strict=True)):
            threads = max(1, int(self.bundles[0]["CPU"]))
            group = replace(self.group, cwd=self.group.cwd if place.sees_job else place.cwd, env=self._env(place))
            member = GroupMember(rank, peers[: self.monitor.workers], threads, peers[self.monitor.workers :])
            self.expected[actor.begin.remote(group.to_json(), member.to_json())] = rank
            self._ask_news(rank)
        if self.monitor.stopped:
            self.ask_to_stop()

    def _blind(self) -> Failure | None:
        """Return why a node that lacks the job's or the run's folder cannot serve; note what is merely worse."""
        for place in self.places:
            if not place.sees_job and "working_dir" not in self.runtime_env:
                return Failure(
                    f"node {place.host} has no folder {self.group.cwd}: share it, or ship it with "
                    "engine: {ray: {runtime_env: {working_dir: .}}}"
                )
            if not place.sees_run and self.monitor.launch.resume:
                where = f"the checkpoint in {self.monitor.folder}"
                return Failure(f"node {place.host} does not see {where}: it must be on a shared disk")
        if not all(place.sees_run for place in self.places):
            words = f"not all nodes see {self.monitor.folder}, so checkpoints stayed on their nodes"
            self.monitor.warnings.append(words)
        return None

    def _env(self, place: Place) -> dict[str, str]:
        """Return the variables of one place: all GPUs that the launch has on a node, in the order of its ranks."""
        env = dict(self.group.env)
        if not place.sees_run:
            del env["COTUNE_CHECKPOINT"]
        gpus = [gpu for other in self.places if other.node == place.node for gpu in other.gpus]
        return {**env, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}

    def _ask_news(self, rank: int) -> None:
        self.expected[self.actors[rank].news.remote(_NEWS_SECONDS)] = rank

    def _write(self, news: News) -> None:
        for name, added in news[0]:
            path = self.monitor.folder / name
            if name.endswith(".json"):
                write_whole(path, added.decode())
            else:
                with path.open("ab") as file:
                    file.write(added)

    def _tell(self, method: str, *args: Any, ranks: Collection[int] | None = None) -> None:
        if self.placed:
            for rank, actor in enumerate(self.actors):
                if rank not in self.ended and (ranks is None or rank in ranks):
                    getattr(actor, method).remote(*args)

    def _hear_out(self) -> None:
        """End the workers now and hear the last of them; an actor that cannot answer any more is lost."""
        self._tell("signal", int(signal.SIGUSR1))
        until = time.monotonic() + _ANSWER_SECONDS
        while self.expected and self.lost is None:
            ready, _ = ray.wait(list(self.expected), num_returns=1, timeout=max(0.0, until - time.monotonic()))
            if not ready:
                rank = next(iter(self.expected.values()))
                self.silent.add(rank)
                self.lost = _broken(f"node {self.places[rank].host} with rank {rank} no longer answers")
                return
            self.take(ready[0])

    def _loss(self, which: int, error: RayError) -> Failure:
        """Return what was lost with an actor: its node, or only itself."""
        if not self.placed:
            return Failure(f"the workers could not be placed: {first_line(error)}")
        place = self.places[which]
        if _is_gone(place.node):
            return _broken(f"lost node {place.host} ({place.node[:8]}) with rank {which}")
        return _broken(f"the actor of rank {which} on {place.host} ended: {first_line(error)}")


def _broken(words: str) -> Failure:
    return Failure(words, Cause.OUTSIDE)


def _is_gone(node: str) -> bool:
    """Say whether a node is no longer there, sooner than Ray declares it dead: nobody listens at its raylet's port."""
    until = time.monotonic() + _GONE_SECONDS
    while time.monotonic() < until:
        at = next((one for one in _alive() if one["NodeID"] == node), None)
        if at is None or not listens(at["NodeManagerAddress"], at["NodeManagerPort"]):
            return True
        time.sleep(LOOK_SECONDS)
    return False


def listen(launches: Collection[RayLaunch], timeout: float) -> bool:
    """Wait for the next replies and let the launches take them; return whether any is expected."""
    expected = {reply: launch for launch in launches for reply in launch.expected}
    if not expected:
        return False
    ready, _ = ray.wait(list(expected), num_returns=1, timeout=timeout)
    more, _ = ray.wait(list(expected), num_returns=len(expected), timeout=0)
    for reply in dict.fromkeys([*ready, *more]):
        expected[reply].take(reply)
    return True


def room(device: str, cpus: float) -> int:
    """Return how many workers of a device the nodes that answer hold, when nothing else runs on them."""
    nodes = _listening()
    try:
        return fitting(bundle(device, cpus, nodes), nodes)
    except UsageError:  # no node is left that offers it
        return 0


def _listening() -> list[dict[str, float]]:
    """Return the resources of the nodes that answer; Ray itself notices a lost one later."""
    there = [node for node in _alive() if listens(node["NodeManagerAddress"], node["NodeManagerPort"])]
    return [node["Resources"] for node in there]


def _alive() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
