"""OPT-350M on seven GPU types, from measured layer times: plans, and two assumptions put to the test.

    COTUNE_DATA=... python benchmarks/placement_sailor.py [--write profile.json]

The data (folder sailor_opt350) hold seconds of forward, backward and update of each of 26 layers for
several micro-batches and tensor-parallel degrees. Here a unit is a GPU; a stage on k = m x d units is m
data-parallel groups of degree d, whichever measured d is fastest. The update is left out: it is paid once
a step, not once a micro-batch. Activations (2048 x 1024 half-precision numbers per example, forward and
back) cross cuts at 100 Gbit/s, overlapped with computing. The prices of A100-40, V100-16 and GH-96 are
those of the data's authors; the other four are assumed.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from cotune.errors import Infeasible
from cotune.placement.answers import PlacementGoal, answer
from cotune.placement.profiles import Profile, parse

PRICES = {
    "A100-40": 3.673385,
    "V100-16": 2.859998,
    "GH-96": 11.06,
    "A100-80": 5.07,
    "RTX-3090": 0.80,
    "Titan-RTX": 0.60,
    "RTX-2080": 0.40,
}
MEASURED_PRICES = ("A100-40", "V100-16", "GH-96")
BATCH = 4
LAYERS = 26
CUT_SECONDS = 2 * 2048 * 1024 * 2 / (100e9 / 8)  # per example, activations there and gradients back
Times = dict[int, dict[int, np.ndarray]]  # micro-batch -> degree -> seconds per layer


def load(folder: Path, name: str) -> Times:
    """Return forward + backward seconds per layer."""
    data = json.loads((folder / f"{name}.json").read_text())
    return {
        int(batch): {
            int(degree): np.array([sum(_row(layers, layer)[:2]) for layer in range(LAYERS)])
            for degree, layers in degrees.items()
        }
        for batch, degrees in data.items()
    }


def _row(layers: Any, layer: int) -> list[float]:
    row: list[float] = layers[str(layer)] if isinstance(layers, dict) else layers[layer]
    return row


def table(times: dict[str, Times], stock: dict[str, int]) -> Profile:
    """Return the profile of some stock, as a table of stages."""
    rows = []
    for name, units in stock.items():
        degrees = times[name][BATCH]
        sums = {degree: np.concatenate([[0.0], np.cumsum(layers)]) for degree, layers in degrees.items()}
        for first in range(LAYERS):
            for last in range(first, LAYERS):
                cuts = ((first > 0) + (last < LAYERS - 1)) * CUT_SECONDS * BATCH
                for count in range(1, units + 1):
                    compute = min(
                        (float(total[last + 1] - total[first]) / (count // degree))
                        for degree, total in sums.items()
                        if count % degree == 0
                    )
                    seconds = max(compute, cuts / count)
                    rows.append({"type": name, "first": first, "last": last, "units": count, "seconds": seconds})
    kinds = [{"name": name, "price_per_hour": PRICES[name], "limit": units} for name, units in stock.items()]
    layers = [{"name": "embedding"}, *({"name": f"block{place}"} for place in range(24)), {"name": "head"}]
    return parse({"name": "OPT-350M", "batch": BATCH, "types": kinds, "layers": layers, "stage_seconds": rows})


def plans(times: dict[str, Times]) -> None:
    stocks = {
        "32 V100, 16 A100-40": {"V100-16": 32, "A100-40": 16},
        "32 V100, 16 A100-40, 8 GH200": {"V100-16": 32, "A100-40": 16, "GH-96": 8},
        "8 of each of the seven types": dict.fromkeys(PRICES, 8),
    }
    print("| stock | asked, examples/s | plan: units type (layers) | examples/s | USD per million | proof | ms |")
    print("| --- | ---: | --- | ---: | ---: | --- | ---: |")
    for words, stock in stocks.items():
        profile = table(times, stock)
        for throughput in (25.0, 100.0, 140.0):
            try:
                found = answer(profile, PlacementGoal(throughput))
            except Infeasible as error:
                print(f"| {words} | {throughput:g} | infeasible: {error} | | | | |")
                continue
            plan = found.plan
            stages = ", ".join(f"{one.workers} {one.device} ({one.first}-{one.last})" for one in plan.stages)
            proof = "optimal" if found.optimal else f"bound {found.bound:.1f}"
            print(
                f"| {words} | {throughput:g} | {stages} | {plan.throughput:.1f} | {plan.cost_per_million:.1f} "
                f"| {proof} | {1e3 * found.seconds:.0f} |"
            )


def amdahl(times: dict[str, Times]) -> None:
    """Print how well O (1 - a + a/k) fits the whole model's seconds over degrees."""
    print(f"\n| type | degrees, micro-batch {BATCH} | speed-up measured | share a fitted | worst error |")
    print("| --- | --- | --- | ---: | ---: |")
    for name in PRICES:
        degrees = sorted(times[name][BATCH])
        seconds = np.array([times[name][BATCH][degree].sum() for degree in degrees])
        units = np.array(degrees, dtype=float)

        def worst(share: float, seconds: np.ndarray = seconds, units: np.ndarray = units) -> float:
            return float(np.max(np.abs(seconds[0] * (1 - share + share / units) / seconds - 1)))

        share = float(minimize_scalar(worst, bounds=(0, 1), method="bounded").x)
        gains = ", ".join(f"{seconds[0] / each:.2f}" for each in seconds)
        print(f"| {name} | {', '.join(map(str, degrees))} | {gains} | {share:.3f} | {worst(share):.1%} |")


def batches(times: dict[str, Times]) -> None:
    """Print what 'proportional to the batch' and c0 + c1 B say of the largest micro-batch and of all of them."""
    print("\n| type | degree | micro-batches | proportional from 1: worst error | affine c0 + c1 B: worst error |")
    print("| --- | ---: | --- | ---: | ---: |")
    for name in PRICES:
        for degree in (1, 2, 4, 8):
            sizes = sorted(size for size in times[name] if degree in times[name][size])
            if len(sizes) < 3 or sizes[0] != 1:
                continue
            size = np.array(sizes, dtype=float)
            seconds = np.array([times[name][each][degree].sum() for each in sizes])
            proportional = seconds[0] * size / seconds - 1
            # Relative least squares: every batch size counts the same.
            design = np.stack([1 / seconds, size / seconds], axis=1)
            fit = np.linalg.lstsq(design, np.ones(len(size)), rcond=None)[0]
            affine = np.abs(design @ fit - 1).max()
            print(
                f"| {name} | {degree} | {', '.join(map(str, sizes))} "
                f"| {proportional[np.abs(proportional).argmax()]:+.0%} | {affine:.0%} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="Write the profile of 8 units of each type, for `cotune place`.")
    asked = parser.parse_args()
    if "COTUNE_DATA" not in os.environ:
        parser.error("needs COTUNE_DATA, the folder that holds sailor_opt350")
    folder = Path(os.environ["COTUNE_DATA"]) / "sailor_opt350"
    times = {name: load(folder, name) for name in PRICES}
    if asked.write:
        profile = table(times, dict.fromkeys(PRICES, 8))
        asked.write.write_text(profile.model_dump_json(exclude_none=True))
        return
    plans(times)
    amdahl(times)
    batches(times)


if __name__ == "__main__":
    main()
