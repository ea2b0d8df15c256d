"""Values of axes, and columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Value = str | int | float | bool
Axes = tuple[tuple[str, Value], ...]


def axes_of(values: Mapping[str, Value]) -> Axes:
    """Return named axes in one order, so that equal configs compare equal."""
    return tuple(sorted(values.items()))
