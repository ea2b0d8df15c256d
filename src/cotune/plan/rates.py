"""What a second of each config costs.

    rate = price x units        device-seconds where no prices are given: a price of 1

Servers are paid for like workers; `bill: node` counts whole nodes. More units than the
cluster has of a device cannot be had, at an infinite rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cotune.space import Configs
from cotune.types import Cluster, Floats, Sample


def rates(configs: Configs, cluster: Cluster) -> Floats:
    """Return the cost per second of each config."""
    rate = np.full(len(configs), np.inf)
    for device in cluster.devices:
        rows = configs.device == device.name
        units = configs.units[rows].astype(np.float64)
        fits = units <= device.count if device.count else np.ones(len(units), dtype=bool)
        if device.bill == "node" and device.per_node:
            units = np.ceil(units / device.per_node) * device.per_node
        price = device.price_per_hour / 3600 if cluster.priced and device.price_per_hour is not None else 1.0
        rate[rows] = np.where(fits, units * price, np.inf)
    return rate


def cost_of(samples: Sequence[Sample], cluster: Cluster) -> float:
    """Return what some starts cost on a cluster, as plans count it; a device without a known price costs no money."""
    if not samples:
        return 0.0
    endless = replace(cluster, devices=tuple(replace(device, count=None) for device in cluster.devices))
    configs = Configs.of([sample.config for sample in samples])
    rate = rates(configs, endless)
    elsewhere = np.zeros(len(configs)) if cluster.priced else configs.units
    seconds = np.array([sample.seconds for sample in samples])
    return float((seconds * np.where(np.isfinite(rate), rate, elsewhere)).sum())
