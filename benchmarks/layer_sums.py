"""Whole networks as sums of their layers, beside counts and measured steps, on the device at hand.

    cotune model layers 2000 --kinds dense,conv,pool --into layers --budget 150s
    python benchmarks/layer_sums.py layers [--device cpu|cuda] [--seconds 3]

Truth: the median step of each network, at batch 4 on one core or at batch 32 on a GPU. "layerwise" is the published
network of Justus et al. trained on the timed layers of the folder, "trees" boosted trees on the same ones, "trees once"
with what timing adds to a layer paid once a step (`--tier layer_trees`), "counts" the counts at rates measured here
first, "steps" the line through steps at half and double that batch (8 and 64 on a GPU). Nothing sees the batch itself.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cotune.devices import known
from cotune.modelling.counting.calibrate import calibrate
from cotune.modelling.counting.timing import measure
from cotune.modelling.counting.trace import count
from cotune.modelling.layer_rows import LayerModel, LayerPredictor, Layers, read_layers
from cotune.modelling.layer_sums import read_network, summed_seconds
from cotune.modelling.prediction import Target, from_counts, from_steps
from cotune.modelling.predictors.layerwise import LayerTrees, Layerwise
from cotune.modelling.roofline import Rates
from cotune.modelling.step_law import StepTime
from cotune.modelling.workloads.named import find
from cotune.modelling.workloads.random_layers import device_name
from cotune.types import Config

NETWORKS = ("lenet5", "cifar10dnn", "resnet18", "vgg19")
BATCHES = {"cpu": (4, (2, 8)), "cuda": (32, (8, 64))}  # the one that is asked for, and those of "steps"
TIERS = ("layerwise", "trees", "trees once", "counts", "steps")


@dataclass
class FittedOnce:
    """A law of layers that is fitted once to each kind, for all networks."""

    law: LayerPredictor
    fits: dict[str, LayerModel] = field(default_factory=dict)

    def fit_layers(self, layers: Layers) -> LayerModel:
        if layers.kind not in self.fits:
            self.fits[layers.kind] = self.law.fit_layers(layers)
        return self.fits[layers.kind]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="most seconds for one batch of one network")
    parser.add_argument("--device", choices=tuple(BATCHES), default="cpu")
    asked = parser.parse_args()
    batch, ends = BATCHES[asked.device]
    timed, device = read_layers(asked.layers), device_name(asked.device)
    found = calibrate(asked.device)
    laws = FittedOnce(Layerwise()), FittedOnce(LayerTrees())
    target = Target(device, Rates.calibrated(found, known(found.name)))
    print("learnt from", {kind: int((table.device == device).sum()) for kind, table in timed.items()}, "layers")
    print(f"{'network':12} {'layers':>6} {'step ms':>8}  " + "  ".join(f"{name:>10}" for name in TIERS))
    errors = []
    for name in NETWORKS:
        workload, counts = find(name), count(find(name), batch)
        reading = read_network(workload, batch, "momentum")
        steps = {one: measure(workload, one, asked.device, seconds=asked.seconds) for one in (batch, *ends)}
        config = Config.data_parallel(batch, 1, device)
        line = [StepTime(end, 1, steps[end].seconds, steps[end].spread) for end in ends]
        predicted = (
            summed_seconds(reading, timed, device, laws[0]),
            *(summed_seconds(reading, timed, device, laws[1], once=once) for once in (False, True)),
            from_counts(counts, config, target).step_seconds.mid,
            from_steps(counts, config, target, line).step_seconds.mid,
        )
        truth = steps[batch].seconds
        errors.append([seconds / truth - 1 for seconds in predicted])
        total = sum(map(len, reading.rows.values()))
        cells = "  ".join(f"{error:>+10.0%}" for error in errors[-1])
        print(f"{name:12} {total:6} {truth * 1e3:8.2f}  {cells}", flush=True)
    print(f"{'mean size':12} {'':6} {'':8}  " + "  ".join(f"{size:>10.0%}" for size in np.abs(errors).mean(axis=0)))


if __name__ == "__main__":
    main()
