"""Made-up outlooks for planning tests: a physical epoch time and a power-law learning curve."""

from __future__ import annotations

import numpy as np

from cotune.forecast import Learning, Outlook, standard_draws
from cotune.space import Configs

EXAMPLES = 60_000


def outlook_of(configs: Configs, max_epochs: int, *, draws: int = 32, seed: int = 0, noise: float = 0.05) -> Outlook:
    z_time, z_accuracy = standard_draws(draws, seed)
    batches, recipe = np.unique(configs.global_batch, return_inverse=True)
    pace = configs.steps(EXAMPLES) * (0.002 + 1e-5 * configs.batch_size + 0.001 * (configs.workers > 1))
    epochs = np.arange(1, max_epochs + 1)
    accuracy = 1 - 0.3 * (epochs / (1 + batches[:, None] / 2000) + 0.1) ** -0.7
    count, spread = len(configs), np.full(accuracy.shape, 0.004)
    return Outlook(
        configs=configs,
        epoch_seconds=pace,
        spread=np.full(count, noise),
        seconds_source=np.full(count, "interpolated", dtype=object),
        startup=np.full(count, 0.5),
        overhead=np.full(count, 0.1),
        z_time=z_time,
        z_accuracy=z_accuracy,
        learning=Learning(
            recipe=recipe,
            best=accuracy,
            spread=spread,
            fall=spread,
            evaluation=accuracy,
            evaluation_spread=spread,
            source=np.full(len(batches), "interpolated", dtype=object),
            told=np.full(len(batches), np.inf),
        ),
    )
