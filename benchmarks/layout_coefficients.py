"""Fit the laws of layouts to each model of a table by itself, and write the coefficients.

python benchmarks/layout_coefficients.py $COTUNE_DATA/playbook_layouts src/cotune/modelling/layouts/fitted.yaml
"""

from __future__ import annotations

import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np

from cotune.modelling.layouts.memory import MEMORY
from cotune.modelling.layouts.predictor import LayoutLearner
from cotune.modelling.layouts.seconds import COEFFICIENTS
from cotune.modelling.layouts.tables import find_table, read_table

HEAD = """# Coefficients of the laws of seconds and memory, each model's fitted to its own measured layouts alone:
# nanotron on nodes of 8 H100, Hugging Face's ultra-scale playbook (Apache-2.0), by benchmarks/layout_coefficients.py.
# shape: layers, hidden, heads, key-value heads, feed-forward, vocabulary, tokens of a sequence, tied, gated
# stalls: bad nodes of a pool of so many, and seconds of an exchange
"""


def main(folder: Path, into: Path) -> None:
    lines = [HEAD]
    for group in read_table(find_table(folder)):
        learner = LayoutLearner([group.rows])
        seconds, memory = learner.shared()
        shape = ", ".join(str(value).lower() for value in astuple(group.rows.setting.model))
        lines += [f"{group.name}:\n", f"  shape: [{shape}]\n"]
        for name, theta, coefficients in (("seconds", seconds, COEFFICIENTS), ("memory", memory, MEMORY)):
            lines.append(f"  {name}:\n")
            lines += [
                f"    {part.name}: {value:.4g}\n" for part, value in zip(coefficients, np.exp(theta), strict=True)
            ]
        stalls = learner.stalls
        bad = ", ".join(f"{value:.4g}" for value in np.exp(stalls.weights))
        lines.append(f"  stalls:\n    bad nodes: [{bad}]\n")
        lines.append(f"    seconds: {stalls.seconds:.4g}\n    pool: {stalls.pool}\n")
    into.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
