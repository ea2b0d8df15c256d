"""How workers lie on nodes: as few nodes as hold them, as even as can be.

N = ceil(n / per_node)      l = n / N
"""

from __future__ import annotations

import numpy as np

from cotune.space import Configs
from cotune.types import Floats


def nodes(configs: Configs, per_node: int | None) -> Floats:
    """Return the nodes that each config spans; one when nothing is known of nodes."""
    if per_node is None:
        return np.ones(configs.length)
    return np.ceil(configs.workers / per_node)
