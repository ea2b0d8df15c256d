"""Random layers on two devices whose truth is known."""

from __future__ import annotations

import numpy as np

from cotune.modelling.layer_features import work
from cotune.modelling.layer_rows import SHAPES, WORDS, Facts, Layers


def layers(kind: str, count: int, seed: int = 0) -> Layers:
    """Return random layers on two devices whose time is half a millisecond and twice their roofline."""
    rng = np.random.default_rng(seed)
    devices = {"slow": Facts(2000, 100, 1000, 800), "fast": Facts(8000, 400, 4000, 1200)}

    def value(name: str) -> str:
        if name in WORDS:
            return str(rng.choice(WORDS[name]))
        most = {"batch": 64, "kernel": 7, "stride": 4, "bias": 1, "bidirectional": 1, "size_in": 64}.get(name, 512)
        return str(rng.integers(0 if most == 1 else 1, most + 1))

    parts = []
    for number, (name, facts) in enumerate(devices.items()):
        rows = [{column: value(column) for column in SHAPES[kind]} for _ in range((count + number) // 2)]
        parts.append(Layers.of(kind, rows, name, facts))
    whole = Layers.joined(parts)
    return Layers(kind, whole.shape, whole.device, whole.facts, 0.5 + 2 * work(whole).roofline(whole.facts))
