"""A small CTR network of which one layer does something once, in the middle of training, to the run it is part of.

It is written into the folder of a test, from where workers import it as `watched:network`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from cotune.placement.pipeline import ctr
from cotune.placement.pipeline.layers import PipelineNetwork

LAYER, FORWARDS = 1, 20
DEED = Path("deed")  # what it shall do; gone once it has done it


def network() -> PipelineNetwork:
    """Return it."""
    plain = ctr.network("ctrdnn(width=16, rows=300)")
    layers = list(plain.layers)
    layers[LAYER] = replace(layers[LAYER], make=_watched(layers[LAYER].make))
    return replace(plain, name="watched", layers=tuple(layers))


def _watched(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: _Watched(make())


class _Watched(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.forwards = inner, 0

    def forward(self, *entering: Tensor) -> Tensor:
        self.forwards += 1
        if self.forwards == FORWARDS and DEED.exists():
            _do(DEED.read_text())
        return self.inner(*entering)  # type: ignore[no-any-return]


def _do(deed: str) -> None:
    if deed == "die":
        DEED.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    elif deed == "lose the node":
        Path("reached").touch()
        signal.pause()
    else:
        DEED.unlink()
        Path("run/resize").write_text(deed)
        while not Path(os.environ["COTUNE_STOP"]).exists():
            time.sleep(0.01)
