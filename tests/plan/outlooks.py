"""Made-up outlooks for planning tests: a physical epoch time and a power-law learning curve."""

from __future__ import annotations

import numpy as np

from cotune.forecast import Learning, Outlook, standard_draws
from cotune.space import Configs

EXAMPLES = 60_000
SPREAD = 0.004  # of what runs of one recipe show


def outlook_of(configs: Configs, max_epochs: int, *, draws: int = 32, seed: int = 0, noise: float = 0.05) -> Outlook:
    z_time = standard_draws(draws, seed)
    batches, recipe = np.unique(configs.global_batch, return_inverse=True)
    pace = configs.steps(EXAMPLES) * (0.002 + 1e-5 * configs.batch_size + 0.001 * (configs.workers > 1))
    epochs = np.arange(1, max_epochs + 1)
    accuracy = 1 - 0.3 * (epochs / (1 + batches[:, None] / 2000) + 0.1) ** -0.7
    luck = SPREAD * np.random.default_rng(seed).permutation(z_time)
    count = len(configs)
    return Outlook(
        configs=configs,
        epoch_seconds=pace,
        spread=np.full(count, noise),
        seconds_source=np.full(count, "interpolated", dtype=object),
        startup=np.full(count, 0.5),
        overhead=np.full(count, 0.1),
        z_time=z_time,
        learning=Learning(
            recipe=recipe,
            shown=accuracy[:, None, :] + luck[:, None],
            source=np.full(len(batches), "interpolated", dtype=object),
            told=np.full(len(batches), np.inf),
        ),
    )
