"""Made-up CTR networks: an embedding that gains little from an accelerator, dense layers that gain much."""

from __future__ import annotations

import random
from typing import Any


def ctr(rng: random.Random, depth: int, types: int) -> dict[str, Any]:
    """Return a profile of `depth` layers on 8 CPU cores, a V100 and types between, at the paper's prices."""
    between = [0.9, 1.6][: types - 2]
    speeds = [1.0, *(rng.uniform(3, 12) for _ in between), 24.0]
    prices = [0.32, *between, 2.42]
    limits = [60, *(rng.randint(8, 24) for _ in between), 32]
    layers = []
    for place in range(depth):
        dense = place > 0
        work = rng.uniform(0.05, 0.3) if dense else rng.uniform(0.3, 1.2)
        gains = [speed if dense else 1 + (speed - 1) * 0.05 for speed in speeds]
        moved = rng.uniform(0.002, 0.02)
        layers.append(
            {
                "name": f"fc{place}" if dense else "embedding",
                "kind": "fc" if dense else "embedding",
                "compute": [work / gain for gain in gains],
                "compute_parallel": [rng.uniform(0.9, 0.99) for _ in speeds],
                "sync": [moved * rng.uniform(0.2, 1) for _ in speeds],
                "sync_parallel": [rng.uniform(0.3, 0.8) for _ in speeds],
                "cut_before": [rng.uniform(0.5, 2) * moved for _ in speeds],
                "input_bytes": rng.uniform(1e3, 1e5),
                "weight_bytes": rng.uniform(1e4, 1e8),
            }
        )
    names = ["cpu8", *(f"mid{place}" for place in range(len(between))), "v100"]
    kinds = [
        {"name": name, "price_per_hour": price, "limit": limit}
        for name, price, limit in zip(names, prices, limits, strict=True)
    ]
    return {"batch": 4096, "types": kinds, "layers": layers}
