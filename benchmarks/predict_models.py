"""How far predictions of a model's step are off: from counts alone, then from two measured batch sizes.

    python benchmarks/predict_models.py [--device auto|cpu|cuda] [--seconds 2] [--inspect cpu,cuda] [--out FILE]
    python benchmarks/predict_models.py --device cuda --precisions fp32,bf16 --truth recordings/models-h200.json

Truth: the median step of ResNet-18, VGG-19, a transformer block and LeNet-5 at some batches on the
device at hand. "published" takes the rates of the table, "calibrated" those measured here first,
"two batches" a line through the smallest and the largest batch, judged on the ones between. The
80 % interval of each tier is checked as well. `--truth` takes what was measured from a file that
`--out` wrote, and judges today's predictions by it. `--inspect` shows how few operator types make 90 % of
the time of Fathom's eight workloads on those devices. The first line is
the cost of counting itself: ResNet-50 at batch 256, CPU seconds and the most memory held.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from cotune.devices import known
from cotune.devices.present import Calibration
from cotune.modelling.counting.calibrate import calibrate
from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.profiler import profiled
from cotune.modelling.counting.timing import measure
from cotune.modelling.counting.trace import count
from cotune.modelling.prediction import Prediction, Target, from_counts, from_steps
from cotune.modelling.roofline import Rates
from cotune.modelling.step_law import StepTime
from cotune.modelling.workloads.fathom import FATHOM
from cotune.modelling.workloads.named import find
from cotune.types import Config

MODELS = ("resnet18", "vgg19", "transformer_block", "lenet5")
BATCHES = {"cuda": (16, 32, 64, 128, 256, 512), "cpu": (2, 4, 8, 16)}
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--precisions", default="fp32", help="fp32,bf16")
    parser.add_argument("--seconds", type=float, default=2.0, help="most seconds for one batch")
    parser.add_argument("--inspect", default="", help="cpu,cuda")
    parser.add_argument("--truth", type=Path, help="what was measured before, instead of measuring")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    device = asked.device if asked.device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    results: Row = {"device": device, "torch": torch.__version__, "counting": counting(), "rows": [], "inspect": []}
    before: Row | None = json.loads(asked.truth.read_text(encoding="utf-8")) if asked.truth else None
    calibration = Calibration(**before["calibration"]) if before else calibrate(device)
    results["calibration"] = asdict(calibration)
    print(calibration, flush=True)
    spec = known(calibration.name)
    targets = {"calibrated": Target(calibration.name, Rates.calibrated(calibration, spec))}
    if spec is not None:
        targets = {"published": Target(spec.name, Rates.published(spec)), **targets}
    for precision in asked.precisions.split(","):
        for name in MODELS:
            truth = remembered(before, name, precision) if before else measured(name, device, precision, asked.seconds)
            rows = predicted(name, precision, targets, truth)
            results["rows"] += rows
            show(name, precision, rows)
            save(results, asked.out)
    for where in asked.inspect.split(",") if asked.inspect else ():
        results["inspect"] += [inspected(name, where) for name in FATHOM]
    save(results, asked.out)


def counting() -> Row:
    began, cpu = time.perf_counter(), time.process_time()
    found = count(find("resnet50"), 256)
    row = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "most_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "gflop_per_example": found.flops / 256e9,
        "peak_bytes": found.peak_bytes,
    }
    print("counting ResNet-50 at batch 256:", {name: f"{value:.4g}" for name, value in row.items()}, flush=True)
    return row


def measured(name: str, device: str, precision: Any, seconds: float) -> dict[int, StepTime]:
    """Return steps timed here, by batch."""
    workload = find(name)
    return {batch: measure(workload, batch, device, precision=precision, seconds=seconds) for batch in BATCHES[device]}


def remembered(before: Row, name: str, precision: str) -> dict[int, StepTime]:
    """Return steps as they were timed for an earlier call, by batch."""
    rows = [row for row in before["rows"] if (row["model"], row["precision"]) == (name, precision)]
    return {row["batch"]: _timing(row) for row in rows}


def _timing(row: Row) -> StepTime:
    return StepTime(row["batch"], 1, row["seconds"], row["spread"], row["measured_bytes"])


def predicted(name: str, precision: Any, targets: dict[str, Target], truth: dict[int, StepTime]) -> list[Row]:
    """Return truth and every prediction, one row per batch."""
    workload, batches = find(name), sorted(truth)
    counted = {batch: count(workload, batch, precision=precision) for batch in batches}
    ends = [truth[batch] for batch in (batches[0], batches[-1])]
    rows = []
    for batch in batches:
        config = Config.data_parallel(batch, 1, "here")
        tiers = {label: from_counts(counted[batch], config, t, precision=precision) for label, t in targets.items()}
        if batch not in (batches[0], batches[-1]):
            tiers["two batches"] = from_steps(counted[batch], config, targets["calibrated"], ends, precision=precision)
        rows.append(_row(name, precision, truth[batch], counted[batch], tiers))
    return rows


def _row(name: str, precision: str, truth: StepTime, counts: Counts, tiers: dict[str, Prediction]) -> Row:
    row: Row = {"model": name, "precision": precision, "batch": truth.batch, "seconds": truth.seconds}
    row |= {"spread": truth.spread, "flops": counts.flops, "operators": counts.operators}
    row |= {"measured_bytes": truth.peak_bytes, "counted_bytes": counts.peak_bytes}
    for label, found in tiers.items():
        step = found.step_seconds
        row[label] = {
            "seconds": step.mid,
            "error": step.mid / truth.seconds - 1,
            "within": step.low <= truth.seconds <= step.high,
        }
    return row


def show(name: str, precision: str, rows: list[Row]) -> None:
    for row in rows:
        errors = {label: f"{row[label]['error']:+.0%}" for label in row if isinstance(row[label], dict)}
        measured = row["measured_bytes"]
        memory = f"memory {row['counted_bytes'] / measured - 1:+.0%}" if measured else ""
        print(f"{name:18} {precision} batch {row['batch']:4} {row['seconds'] * 1e3:9.3f} ms {errors} {memory}")
    for label in ("published", "calibrated", "two batches"):
        known_rows = [row[label] for row in rows if label in row]
        if known_rows:
            size = statistics.mean(abs(entry["error"]) for entry in known_rows)
            held = sum(entry["within"] for entry in known_rows)
            print(
                f"{name:18} {precision} {label}: MAPE {size:.1%}, {held} of {len(known_rows)} in the interval",
                flush=True,
            )


def inspected(name: str, device: str) -> Row:
    workload = find(name)
    found = profiled(workload, workload.batch_size, device, steps=5)
    first = [(one.name, round(one.share, 3)) for one in found.operators[:4]]
    row = {
        "workload": name,
        "device": device,
        "batch": found.batch,
        "step_seconds": found.step_seconds,
        "operator_seconds": sum(one.seconds for one in found.operators),
        "types": len(found.operators),
        "types_for_90": found.types_for(0.9),
        "first": first,
    }
    print(
        f"{name:10} {device:4} batch {found.batch:4} {found.step_seconds * 1e3:8.2f} ms: {row['types_for_90']:2} of "
        f"{row['types']:2} operator types make 90 %: {', '.join(f'{op} {share:.0%}' for op, share in first)}",
        flush=True,
    )
    return row


def save(results: Row, out: Path | None) -> None:
    if out is not None:
        out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
