"""Which types of device of a service's cluster a job may have, and what it calls them.

    cotune serve --slots 8            units that are all alike (`SLOT`): a job calls them what its file does
    cotune serve --cluster 4x2        the same, on four nodes of two units
    cotune serve --cluster FILE       types with names: a job gets those that its `devices:` name

`cpu` and `gpu`, which a job has whose file names no devices, stand for the first type where no type is called so.
"""

from __future__ import annotations

from dataclasses import replace

from cotune.cluster.policy import capacity
from cotune.cluster.simulate.clusters import parse_cluster
from cotune.errors import Infeasible
from cotune.jobfile.settings import Settings, laid_over
from cotune.types import Cluster, Config, Device

SLOT = "slot"
_ANY = frozenset({"cpu", "gpu"})


def alike(count: int, per_node: int | None = None) -> Cluster:
    """Return a cluster of units that are all alike."""
    return Cluster((Device(SLOT, count, per_node=per_node),))


def served_cluster(spec: str) -> Cluster:
    """Return the cluster that a word or a file describes: with names where a file gives them."""
    found = parse_cluster(spec)
    (first, *more) = found.devices
    return found if more or first.name != "gpu" else alike(first.count or 0, first.per_node)


def is_alike(cluster: Cluster) -> bool:
    """Say whether a job may have any unit of a cluster."""
    return [device.name for device in cluster.devices] == [SLOT]


def as_served(config: Config, cluster: Cluster) -> Config:
    """Return a config with its units called as the service calls them."""
    if not is_alike(cluster):
        return config
    return replace(config, stages=tuple(replace(stage, device=SLOT) for stage in config.stages))


def as_called(config: Config, device: str) -> Config:
    """Return a config with units that are all alike called as the job calls them."""
    if config.device != SLOT:
        return config
    return replace(config, stages=tuple(replace(stage, device=device) for stage in config.stages))


def on_cluster(settings: Settings, cluster: Cluster) -> Settings:
    """Return a job's settings on the types it may have, and on no more of each than there are."""
    there, own = capacity(cluster), settings.cluster
    limits = dict.fromkeys((one.name for one in own.devices), there[SLOT]) if is_alike(cluster) else there
    devices = [one for one in own.devices if one.name in limits]
    if not devices and {one.name for one in own.devices} <= _ANY:
        first = cluster.devices[0]
        devices = [Device(first.name, first.count, first.price_per_hour)]
    if not devices:
        asked, offered = (", ".join(one.name for one in some.devices) for some in (own, cluster))
        raise Infeasible(f"it asks for {asked}, the service has {offered}", "devices")
    least = _least_workers(settings)
    fitting = tuple(
        replace(one, count=min(one.count or limits[one.name], limits[one.name]))
        for one in devices
        if limits[one.name] >= least
    )
    if not fitting:
        most = max(limits[one.name] for one in devices)
        raise Infeasible(f"it needs at least {least} workers, the service has {most}", "workers")
    names = tuple(one.name for one in fitting)
    if names != tuple(one.name for one in own.devices):
        settings = laid_over(settings, {"search": {"device": names}})
    return replace(settings, cluster=replace(own, devices=fitting))


def types_of(settings: Settings, cluster: Cluster) -> tuple[str, ...]:
    """Return the types of the service's devices that a job may have."""
    if is_alike(cluster):
        return (SLOT,)
    return tuple(device.name for device in on_cluster(settings, cluster).cluster.devices)


def _least_workers(settings: Settings) -> int:
    axes = [axis.values for axis in settings.space.axes if axis.name == "workers"]
    return min((value for values in axes for value in values if isinstance(value, int)), default=1)
