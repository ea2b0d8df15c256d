"""The bounds of an algorithm's settings, as types: `rounds: Count`, `interval: Positive | None`.

`registry.create` checks settings by these when they come as text. To Python they are plain numbers.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MOST = 1_000_000  # of anything that is counted: more than that is a slip, and takes all memory

Count = Annotated[int, Field(ge=1, le=MOST)]
Whole = Annotated[int, Field(ge=0, le=2**63 - 1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Interval = Annotated[float, Field(ge=1e-3, le=1e12)]  # seconds between two decisions
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
