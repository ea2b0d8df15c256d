"""`cotune model inspect`: where a model's step spends its time, by operator type and by layer."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli.options import Json, one_of, require_model_file
from cotune.cli.output import emit_json, say, table, waiting
from cotune.devices import PRECISIONS
from cotune.errors import UsageError
from cotune.modelling.verbs._model_predictions import Inputs, OptimiserName, PrecisionName, totals_document
from cotune.units import gibibytes, number, short_duration

if TYPE_CHECKING:
    from cotune.modelling.counting.counts import Counts
    from cotune.modelling.counting.profiler import StepProfile

_SHOWN = 15
_BAR = 40
_MOST = (0.5, 0.9, 0.99)


def inspect(
    model: Annotated[str, typer.Argument(help="package.module:callable, file.py:callable or a short name.")],
    batch_size: Annotated[int | None, typer.Option("--batch-size", "-b", min=1, help="Examples of one step.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    inputs: Inputs = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps to profile.")] = 5,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Cores of a CPU to use.")] = 1,
    precision: PrecisionName = "fp32",
    optimiser: OptimiserName = "momentum",
    everything: Annotated[bool, typer.Option("--all", help="Every operator and layer, not the first ones.")] = False,
    counts_only: Annotated[bool, typer.Option("--counts", help="Count, but run nothing.")] = False,
    json: Json = False,
) -> None:
    """Show where a model's time, work and memory go. Time by operator type; work, parameters and memory by layer."""
    kind = one_of(PRECISIONS, precision, "--precision")
    require_model_file(model)
    with waiting("loading torch"):
        from cotune.modelling.counting.profiler import profiled
        from cotune.modelling.counting.trace import count
        from cotune.modelling.counting.workload import STATES
        from cotune.modelling.workloads.named import find
    where = _where(device)
    adapted = one_of(tuple(STATES), optimiser, "--optimiser")
    with waiting(f"counting {model}" if counts_only else f"counting {model}, and profiling {steps} steps of it"):
        workload = find(model, inputs or ())
        batch = batch_size or workload.batch_size
        counts = count(workload, batch, precision=kind, optimiser=adapted)
        found = None if counts_only else profiled(workload, batch, where, steps=steps, threads=threads, precision=kind)
    if json:
        emit_json("inspect", _document(counts, found))
        return
    if found is not None:
        _show_operators(found, None if everything else _SHOWN)
    _show_layers(counts, None if everything else _SHOWN)


def _where(device: str) -> str:
    one_of(("auto", "cpu", "cuda"), device, "--device")
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch sees no GPU here; use --device cpu, or auto to take what there is")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def _document(counts: Counts, found: StepProfile | None) -> dict[str, Any]:
    document: dict[str, Any] = {"model": counts.model, "batch_size": counts.batch, "counts": totals_document(counts)}
    document |= {"layers": [asdict(layer) for layer in counts.layers]}
    document |= {"without_formula": dict(counts.without_formula), "notes": list(counts.notes)}
    if found is not None:
        types = {f"{share:.0%}": found.types_for(share) for share in _MOST}
        document |= {"device": found.device, "step_seconds": found.step_seconds, "types_for": types}
        document |= {"operators": [asdict(one) for one in found.operators]}
    return document


def _show_operators(found: StepProfile, most: int | None) -> None:
    rows = [
        (
            one.name,
            f"{one.calls:g}",
            short_duration(one.seconds),
            f"{one.share:.1%}",
            f"{one.cumulative:.1%}",
            _bar(one.cumulative - one.share, one.cumulative),
        )
        for one in found.operators[:most]
    ]
    head = ("operator", "calls", "time", "share", "so far", "cumulative")
    title = (
        f"a step of batch {found.batch} takes {short_duration(found.step_seconds)} on {found.device}; by operator type:"
    )
    table(head, rows, title=title)
    types = found.types_for(0.9)
    say(f"{types} operator type{'s' if types > 1 else ''} of {len(found.operators)} make 90 % of the time")
    say()


def _bar(before: float, after: float) -> str:
    """Return a line of the cumulative curve: what came before, and what this type adds."""
    start, end = round(before * _BAR), round(after * _BAR)
    return "·" * start + "█" * (end - start)


def _show_layers(counts: Counts, most: int | None) -> None:
    ranked = sorted(counts.layers, key=lambda layer: -layer.flops)
    kept = set(ranked[:most])
    rows = [
        (
            layer.name,
            layer.kind,
            number(layer.flops / 1e6, 3),
            number(layer.bytes / 2**20, 3),
            f"{layer.parameters:,}",
            number(layer.activation_bytes / 2**20, 3),
        )
        for layer in counts.layers
        if layer in kept
    ]
    head = ("layer", "kind", "MFLOP", "MiB moved", "parameters", "MiB kept")
    table(head, rows, title="forward and backward by layer:")
    if len(counts.layers) > len(rows):
        say(f"{len(counts.layers) - len(rows)} smaller layers; --all shows them")
    say(
        f"in all    {number(counts.flops / 1e9)} GFLOP, {number(counts.bytes / 1e9)} GB moved by {counts.operators} "
        f"operators, {counts.parameters:,} parameters, peak memory {gibibytes(counts.peak_bytes)}"
    )
    for name, calls in counts.without_formula.items():
        say(f"note      no formula for {name} ({calls} calls): only its bytes count")
    for line in counts.notes:
        say(f"note      {line}")
