"""How much of a cluster was in use over time: from the starts in the store, which tell when they ran and on what."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import select

from cotune.cluster.service.device_types import is_alike
from cotune.store import Store
from cotune.store.schema import samples
from cotune.types import Cluster, Floats

PARTS = 120  # of the time that is looked back on
LONGEST = timedelta(days=7)  # of a start that still reaches into it


def occupancy_over_time(store: Store, cluster: Cluster, seconds: float) -> dict[str, Any]:
    """Return the mean of the units held in each part of the last so many seconds, probes included, by type of device.

    Where all units of a cluster are alike there is one series, whose device is null.
    """
    now = datetime.now(UTC)
    begin = now - timedelta(seconds=seconds)
    since = (begin - LONGEST).isoformat(timespec="seconds")
    own = [samples.c[name] for name in ("started", "seconds", "workers", "servers", "device")]
    query = select(*own).where(samples.c.started >= since)
    rows = store.ask(lambda connection: connection.execute(query).all())
    edges, width = np.arange(PARTS) * seconds / PARTS, seconds / PARTS
    held: dict[str | None, Floats] = defaultdict(lambda: np.zeros(PARTS))
    names = [None] if is_alike(cluster) else [device.name for device in cluster.devices]
    for started, took, workers, servers, device in rows:
        kind = None if is_alike(cluster) else device
        if kind in names:
            from_begin = (datetime.fromisoformat(started) - begin).total_seconds()
            inside = np.minimum(edges + width, from_begin + took) - np.maximum(edges, from_begin)
            held[kind] += (workers + servers) * np.clip(inside, 0.0, width) / width
    return {
        "seconds": seconds,
        "from": begin.isoformat(timespec="seconds"),
        "to": now.isoformat(timespec="seconds"),
        "unit": "units",
        "series": [{"device": name, "held": [round(float(one), 3) for one in held[name]]} for name in names],
    }
