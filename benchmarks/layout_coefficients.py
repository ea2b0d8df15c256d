"""Fit the laws of layouts to each model of a table by itself, and write the coefficients.

    python benchmarks/layout_coefficients.py $COTUNE_DATA/playbook_layouts src/cotune/modelling/layouts/fitted.yaml
    python benchmarks/layout_coefficients.py recordings src/cotune/modelling/layouts/cores.yaml
    python benchmarks/layout_coefficients.py recordings src/cotune/modelling/layouts/slices.yaml

The last two read decoders on emulated nodes (`layouts-nodes-SETTING.json`, by `benchmarks/live_layouts.py`) and on
slices of a GPU (`layouts-slices-SETTING.json`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np

from cotune.modelling.layouts.fitted_law import STRANGE, STRANGE_PACE, FittedLaw
from cotune.modelling.layouts.fitting import Coefficient, LogPrior
from cotune.modelling.layouts.memory import MEMORY
from cotune.modelling.layouts.predictor import LayoutLearner
from cotune.modelling.layouts.seconds import COEFFICIENTS
from cotune.modelling.layouts.setting import Setting
from cotune.modelling.layouts.tables import find_table, read_table
from cotune.types import Floats
from live_layouts import ON_SLICES, SETTINGS, layout_rows

HEAD = """# Coefficients of the laws of seconds and memory, each model's fitted to its own measured layouts alone:
# nanotron on nodes of 8 H100, Hugging Face's ultra-scale playbook (Apache-2.0), by benchmarks/layout_coefficients.py.
# shape: layers, hidden, heads, key-value heads, feed-forward, vocabulary, tokens of a sequence, tied, gated
"""


OF_PRIORS = ("deeper", "small", "wider")  # settings that priors are made of
STRANGE_HEADS = {
    "cores": """# Coefficients of the law of seconds of decoders on eight emulated nodes of 0.2 cores, gloo between
# them, each fitted to its own layouts alone (recordings/layouts-nodes-*.json), by benchmarks/layout_coefficients.py.
# shape: as in fitted.yaml
""",
    "slices": """# Coefficients of the law of seconds of decoders on eight slices of an H200 that exchange in the host's
# memory, each fitted to its own layouts alone (recordings/layouts-slices-*.json), by benchmarks/layout_coefficients.py.
# shape: as in fitted.yaml
""",
}


def main(folder: Path, into: Path) -> None:
    lines = of_decoders(folder, into.stem) if into.stem in STRANGE_HEADS else of_table(folder)
    into.write_text("".join(lines), encoding="utf-8")


def of_table(folder: Path) -> Iterator[str]:
    """Yield the lines of the models of a table."""
    yield HEAD
    for group in read_table(find_table(folder)):
        learner = LayoutLearner([group.rows])
        seconds, memory = learner.shared()
        yield f"{group.name}:\n  shape: [{_shape(group.rows.setting)}]\n"
        yield from _values("seconds", seconds, COEFFICIENTS)
        yield from _values("memory", memory, MEMORY)


def of_decoders(folder: Path, machines: str) -> Iterator[str]:
    """Yield the lines of decoders on machines that no table has, each fitted from physical guesses."""
    yield STRANGE_HEADS[machines]
    gpu = machines == "slices"
    for name in OF_PRIORS:
        file = folder / f"layouts-{'slices' if gpu else 'nodes'}-{name}.json"
        rows = layout_rows(ON_SLICES[name] if gpu else SETTINGS[name].shape, file, gpu=gpu)
        yield f"{name}:\n  shape: [{_shape(rows.setting)}]\n"
        fitted = FittedLaw.fit(STRANGE, [rows], LogPrior.of(COEFFICIENTS), STRANGE_PACE)
        yield from _values("seconds", fitted.coefficients(rows.setting.machine.name), COEFFICIENTS)


def _shape(setting: Setting) -> str:
    return ", ".join(str(value).lower() for value in astuple(setting.model))


def _values(name: str, theta: Floats, coefficients: Sequence[Coefficient]) -> Iterator[str]:
    yield f"  {name}:\n"
    yield from (f"    {part.name}: {value:.4g}\n" for part, value in zip(coefficients, np.exp(theta), strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
