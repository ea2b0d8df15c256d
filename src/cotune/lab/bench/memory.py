"""How far peak memory is off on recorded fine-tuning runs, and which failures are foreseen.

No row sees its own measurement. Without a run a row's correction is learnt from the rows of all other
families; with `measured` = 2 it also sees the peaks of the two smallest batches of its (table, model,
method, setup, gpus), and only rows beyond those are judged. The counts themselves were written with these
rows in sight, so for the families of the folder shipped as `fms_finetune` they are not out of sample.

    error = |mid - measured| / measured      foreseen: a failed row with P(fits) < 0.9      refused: one that ran
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from cotune.devices import Spec, known
from cotune.errors import NotFound
from cotune.lab.bench.tasks import Figures, grouped, overall
from cotune.modelling.memory import (
    Correction,
    CountedMemory,
    MeasuredPeak,
    MemoryEstimate,
    count,
    device_room,
    estimate,
    learn,
    reserved_bytes,
)
from cotune.modelling.memory.table import RecordedRun, read_runs

QUANTITY = "mem_torch_peak_bytes"
CONFIDENCE = 0.9  # below it a config counts as one that will not fit
UNCENSORED = 74 * 2**30  # above it the allocator frees and retries, so nvidia-smi's value is no measure
_AFTER_FAILURE = 0.01  # P(fits) of a batch larger than one that failed


def bench_memory(folder: Path, *, measured: int = 0, device: str = "a100") -> Figures:
    """Return what is expected of every row, one family left out, with errors over all rows and by family."""
    spec = known(device)
    if spec is None:
        raise NotFound(f"no device {device!r} in the table of devices")
    runs = [(run, count(run.model, run.setup)) for run in read_runs(folder)]
    corrections = {family: _learnt(runs, family) for family in {run.family for run, _ in runs}}
    smallest = _smallest(runs, measured)
    rows = [
        _row(run, counted, spec, corrections[run.family], smallest[run.group])
        for run, counted in runs
        if run.micro_batch > max((one.micro_batch for one in smallest[run.group]), default=0)
    ]
    families = {name: summarise([row for row in rows if row["family"] == name]) for name in sorted(corrections)}
    return {"rows": rows, "summary": summarise(rows), "families": families, "nvidia": _nvidia(rows)}


def summarise(rows: Sequence[Figures]) -> Figures:
    """Return the errors of the rows whose quantity was measured, and the failures of all rows."""
    judged = [(row, row["measured"]) for row in rows if row["measured"] is not None]
    errors = [abs(row["predicted"]["mid"] - value) / value for row, value in judged]
    inside = [row["predicted"]["low"] <= value <= row["predicted"]["high"] for row, value in judged]
    failed, ran = [row for row in rows if row["failed"]], [row for row in rows if not row["failed"]]
    return {
        "quantity": QUANTITY,
        "rows": len(errors),
        "median": overall(np.median, errors),
        "p90": overall(partial(np.quantile, q=0.9), errors),
        "worst": max(errors, default=None),
        "within": overall(np.mean, inside),  # share of measured peaks inside low..high
        "failures": len(failed),
        "foreseen": sum(row["p_fits"] < CONFIDENCE for row in failed),
        "ran": len(ran),
        "refused": sum(row["p_fits"] < CONFIDENCE for row in ran),
    }


def _nvidia(rows: Sequence[Figures]) -> Figures:
    """Return the same for what nvidia-smi showed, where the allocator was not at the device's end."""
    ran = [row for row in rows if not row["failed"]]
    shown = [row for row in ran if row["nvidia_measured"] and row["nvidia_measured"] < UNCENSORED]
    at = [dict.fromkeys(("low", "mid", "high"), row["nvidia_predicted"]) for row in shown]
    as_rows = [row | {"predicted": one, "measured": row["nvidia_measured"]} for row, one in zip(shown, at, strict=True)]
    return summarise(as_rows) | {"quantity": "mem_nvidia_mib", "within": None}


def _learnt(runs: Sequence[tuple[RecordedRun, CountedMemory]], left_out: str) -> Correction:
    return learn(
        MeasuredPeak(run.family, counted, run.micro_batch, run.peak_bytes)
        for run, counted in runs
        if run.family != left_out and run.peak_bytes is not None
    )


def _smallest(
    runs: Sequence[tuple[RecordedRun, CountedMemory]], measured: int
) -> dict[tuple[object, ...], list[RecordedRun]]:
    """Return the runs of each group that may be looked at: those of its smallest batches."""
    found: dict[tuple[object, ...], list[RecordedRun]] = {}
    for group, own in grouped((run for run, _ in runs), lambda run: run.group).items():
        batches = sorted({run.micro_batch for run in own})[:measured]
        found[group] = [run for run in own if run.micro_batch in batches]
    return found


def _row(
    run: RecordedRun, counted: CountedMemory, spec: Spec, correction: Correction, smallest: Sequence[RecordedRun]
) -> Figures:
    room = device_room(spec, run.setup.gpus)
    peaks = {one.micro_batch: one.peak_bytes for one in smallest if one.peak_bytes is not None}
    found = estimate(counted, run.micro_batch, room, measured=peaks, correction=correction)
    return {
        "row": run.row,
        "quantity": QUANTITY,
        "predicted": {"low": found.low, "mid": found.mid, "high": found.high},
        "p_fits": _p_fits(found, smallest),
        "measured": run.peak_bytes,
        "failed": run.failed,
        "table": run.table,
        "model": run.model.name,
        "family": run.family,
        "method": run.method,
        "setup": run.variant,
        "gpus": run.setup.gpus,
        "batch_per_gpu": run.micro_batch,
        "phase": found.phase,
        "source": found.source,
        "nvidia_predicted": reserved_bytes(counted, run.micro_batch, room),
        "nvidia_measured": run.nvidia_bytes,
    }


def _p_fits(found: MemoryEstimate, smallest: Sequence[RecordedRun]) -> float:
    """Return P(fits); a larger batch than one that failed does not."""
    assert found.p_fits is not None
    return min(found.p_fits, _AFTER_FAILURE) if any(one.failed for one in smallest) else found.p_fits
