"""Published timings of single layers, as tables that layer models learn from.

    justus2018       conv_GPU.csv.gz, dens_GPU.csv.gz      TensorFlow 1, single precision
    aiconfigurator   gemm_bf16_GPU.csv.gz                  matrix products m x k by k x n, half precision

A folder that `cotune model layers` wrote is read the same way. Facts of the GPUs are those
of their makers; for cards with two chips those of one chip, which is what a layer runs on.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

from cotune.modelling.layer_rows import Facts, Layers, read_layers

FACTS = {  # GFLOPS in the precision of the timings (2 x cores x MHz for single precision), GB/s, cores, MHz
    "V100": Facts(14_899, 900, 5120, 1455),
    "M60": Facts(4_825, 160, 2048, 1178),
    "GTX1080Ti": Facts(11_340, 484, 3584, 1582),
    "K40": Facts(5_040, 288, 2880, 875),
    "K80": Facts(4_368, 240, 2496, 875),
    "h100_sxm": Facts(989_000, 3350, 16896, 1830),
    "h200_sxm": Facts(989_000, 4800, 16896, 1830),
    "b200_sxm": Facts(2_250_000, 8000, 18944, 1965),
    "l40s": Facts(362_000, 864, 18176, 2520),
}
_PRODUCTS = "gemm_bf16_"


def read_timed_layers(folder: Path) -> dict[str, Layers]:
    """Return the timed layers in a folder, by kind."""
    products = sorted(folder.glob(f"{_PRODUCTS}*.csv.gz"))
    if not products:
        return read_layers(folder, FACTS)
    return {"dense": Layers.joined([_products(file) for file in products])}


def _products(file: Path) -> Layers:
    """Return matrix products as dense layers of the forward pass."""
    gpu = file.name.removeprefix(_PRODUCTS).removesuffix(".csv.gz")
    plain = {"activation": "none", "optimizer": "none"}
    with gzip.open(file, "rt", newline="") as lines:
        rows = [
            plain | {"batch": row["m"], "dim_in": row["k"], "dim_out": row["n"], "ms_median": row["ms"]}
            for row in csv.DictReader(lines)
        ]
    return Layers.of("dense", rows, gpu, FACTS.get(gpu))
