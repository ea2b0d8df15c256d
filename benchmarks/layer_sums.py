"""Whole networks as sums of their layers, beside counts and measured steps, on the CPU at hand.

    cotune model layers 60 --kinds dense,conv,pool --into layers
    python benchmarks/layer_sums.py layers [--seconds 3]

Truth: the median step of each network at batch 4, one core. "layerwise" is the published network of Justus et al.
trained on the timed layers of the folder, "trees" boosted trees on the same ones, "counts" the counts at rates
measured here first, "steps" the line through steps at batches 2 and 8. Nothing sees batch 4.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from cotune.devices import known
from cotune.modelling.counting.calibrate import calibrate
from cotune.modelling.counting.timing import measure
from cotune.modelling.counting.trace import count
from cotune.modelling.layer_rows import read_layers
from cotune.modelling.layer_sums import read_network, summed_seconds
from cotune.modelling.prediction import Target, from_counts, from_steps
from cotune.modelling.predictors.layerwise import LayerTrees, Layerwise
from cotune.modelling.roofline import Rates
from cotune.modelling.step_law import StepTime
from cotune.modelling.workloads.named import find
from cotune.modelling.workloads.random_layers import device_name
from cotune.types import Config

NETWORKS = ("lenet5", "cifar10dnn", "resnet18", "vgg19")
BATCH, ENDS = 4, (2, 8)
TIERS = ("layerwise", "trees", "counts", "steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="most seconds for one batch of one network")
    asked = parser.parse_args()
    timed, device = read_layers(asked.layers), device_name("cpu")
    found = calibrate("cpu")
    target = Target(device, Rates.calibrated(found, known(found.name)))
    print("learnt from", {kind: int((table.device == device).sum()) for kind, table in timed.items()}, "layers")
    print(f"{'network':12} {'layers':>6} {'step ms':>8}  " + "  ".join(f"{name:>10}" for name in TIERS))
    errors = []
    for name in NETWORKS:
        workload, counts = find(name), count(find(name), BATCH)
        reading = read_network(workload, BATCH, "momentum")
        steps = {batch: measure(workload, batch, "cpu", seconds=asked.seconds) for batch in (BATCH, *ENDS)}
        config = Config.data_parallel(BATCH, 1, device)
        ends = [StepTime(batch, 1, steps[batch].seconds, steps[batch].spread) for batch in ENDS]
        predicted = (
            summed_seconds(reading, timed, device, Layerwise()),
            summed_seconds(reading, timed, device, LayerTrees()),
            from_counts(counts, config, target).step_seconds.mid,
            from_steps(counts, config, target, ends).step_seconds.mid,
        )
        truth = steps[BATCH].seconds
        errors.append([seconds / truth - 1 for seconds in predicted])
        total = sum(map(len, reading.rows.values()))
        cells = "  ".join(f"{error:>+10.0%}" for error in errors[-1])
        print(f"{name:12} {total:6} {truth * 1e3:8.2f}  {cells}", flush=True)
    print(f"{'mean size':12} {'':6} {'':8}  " + "  ".join(f"{size:>10.0%}" for size in np.abs(errors).mean(axis=0)))


if __name__ == "__main__":
    main()
