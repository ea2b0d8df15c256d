"""A small model on small nodes, and tables of layouts whose truth is the law itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotune.modelling.layouts.fitting import LogPrior
from cotune.modelling.layouts.layout import ANYWHERE, LayoutRows, Layouts, enumerate_layouts
from cotune.modelling.layouts.memory import MEMORY, count_memory, log_memory
from cotune.modelling.layouts.seconds import COEFFICIENTS, count_terms, log_seconds
from cotune.modelling.layouts.setting import GIB, Machine, Setting, Transformer

SMALL = Transformer(layers=16, hidden=2048, heads=16, kv_heads=16, ffn=8192, vocab=32_000, seq_len=2048)
LARGE = replace(SMALL, layers=32, hidden=4096, heads=32, kv_heads=32, ffn=14_336)
H100 = Machine("h100", 8, 989e12, 3.35e12, 450e9, 50e9, 80e9)
LIMITS = replace(ANYWHERE, shards=(0, 1), recompute=(0,))


def setting(model: Transformer = SMALL) -> Setting:
    return Setting(model, H100)


def some_layouts(where: Setting, nodes: tuple[int, ...] = (1, 2, 4), batch: int = 64) -> Layouts:
    parts = [enumerate_layouts(where, 8 * count, batch, LIMITS) for count in nodes]
    columns = ("dp", "tp", "pp", "shard", "micro_batch", "accumulate", "recompute")
    return Layouts(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def lawful_rows(model: Transformer, factor: float = 1.0, nodes: tuple[int, ...] = (1, 2, 4)) -> LayoutRows:
    """Rows as the laws say, matrices slower by a factor; what does not fit crashed."""
    where = setting(model)
    layouts = some_layouts(where, nodes)
    theta = LogPrior.of(COEFFICIENTS).centre.copy()
    theta[0] += np.log(factor)
    seconds = np.exp(log_seconds(theta, count_terms(layouts, where)))
    gib = np.exp(log_memory(LogPrior.of(MEMORY).centre, count_memory(layouts, where)))
    fits = gib < 0.97 * H100.memory / GIB
    return LayoutRows(where, layouts, np.where(fits, seconds, np.nan), np.where(fits, gib, np.nan))
