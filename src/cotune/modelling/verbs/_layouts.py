"""`cotune model layouts`: every layout of a large model on some devices, the best first, with the reason."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cotune.cli.help import rare_flag
from cotune.cli.options import Json, one_of
from cotune.cli.output import emit_json, say, show, table
from cotune.errors import Infeasible, UsageError
from cotune.modelling.layouts.exports import EXPORTS
from cotune.modelling.layouts.layout import LayoutLimits, LayoutRows, Layouts, enumerate_layouts
from cotune.modelling.layouts.predictor import LayoutLearner, LayoutPredictor
from cotune.modelling.layouts.priors import LayoutPriors
from cotune.modelling.layouts.ranking import PARTS, RankedLayout, rank_layouts, reason
from cotune.modelling.layouts.setting import TORCHTITAN, Machine, Setting, Transformer
from cotune.modelling.layouts.tables import PLAYBOOK, read_table
from cotune.modelling.memory import read_architecture


def layouts(  # a flag for each thing that changes a layout
    model: Annotated[str, typer.Argument(help="config.json or its folder, a name (llama-3-8b), or parameters (7e9).")],
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="Devices that train together.")],
    global_batch: Annotated[int, typer.Option("--global-batch", min=1, help="Sequences of a step, all devices.")],
    device: Annotated[str, typer.Option("--device", help="The GPU: h100, a100.")] = "h100",
    seq: Annotated[int, typer.Option("--seq", min=1, help="Tokens of a sequence.")] = 4096,
    per_node: Annotated[int, typer.Option("--per-node", min=1, help="Devices of a node.")] = 8,
    network: Annotated[float, typer.Option("--network", min=0.1, help="Between nodes, Gb/s of a node.")] = 3200.0,
    table: Annotated[
        Path | None, typer.Option("--table", help="Measured layouts to learn from: a folder with layouts.csv.")
    ] = None,
    shards: Annotated[str, rare_flag("Options", "--shards", help="ZeRO or FSDP stages to consider.")] = "0,1,2,3",
    pipeline: Annotated[bool, typer.Option(help="Whether pipelines are considered.")] = True,
    recompute: Annotated[bool, typer.Option(help="Whether recomputing activations is considered.")] = True,
    across_nodes: Annotated[
        bool, rare_flag("Options", "--tp-across-nodes", help="Consider tensor parallelism beyond a node.")
    ] = False,
    top: Annotated[int, typer.Option("--top", min=1, help="How many to show.")] = 10,
    export: Annotated[str | None, typer.Option("--export", help="Print the best for torchtitan or accelerate.")] = None,
    json: Json = False,
) -> None:
    """Rank every layout of a large model (dp, tp, pp, sharding, micro-batch) by forecast speed and memory."""
    where = _setting(model, device, seq, per_node, network)
    limits = LayoutLimits(across_nodes, _stages(shards), (0, 1) if recompute else (0,), pipelines=pipeline)
    everything = enumerate_layouts(where, gpus, global_batch, limits)
    ranked = rank_layouts(_predictor(where, table), everything, top)
    if not ranked:
        raise Infeasible(
            f"none of {len(everything)} layouts of {model} on {gpus} devices should run: allow recomputing, other "
            "stages of sharding, or more devices",
            constraint="memory",
        )
    if export is not None:
        show(EXPORTS[one_of(tuple(EXPORTS), export, "--export")](ranked[0].layout, where).rstrip("\n"))
    elif json:
        source = "assumed" if table is None else "extrapolated"
        told = {"searched": len(everything), "source": source, "reason": reason(ranked)}
        emit_json("model.layouts", {**told, "layouts": [_document(one) for one in ranked]})
    else:
        _show(ranked, len(everything), table)


def _setting(model: str, device: str, seq: int, per_node: int, network: float) -> Setting:
    machine = Machine.of_device(device, per_node, network * 1e9 / 8 / per_node)
    return Setting(Transformer.of_architecture(read_architecture(model), seq), machine, TORCHTITAN)


def _stages(words: str) -> tuple[int, ...]:
    stages = tuple(int(word) for word in words.split(",") if word.strip() in {"0", "1", "2", "3"})
    if len(stages) != len(words.split(",")):
        raise UsageError(f"cannot read --shards {words!r}; stages are 0, 1, 2 and 3: --shards 0,3")
    return stages


def _predictor(where: Setting, table: Path | None) -> LayoutPredictor:
    """Return forecasts learnt from a table's models, or with the coefficients of models measured elsewhere."""
    others = [] if table is None else [group.rows for group in read_table(table / PLAYBOOK)]
    priors = LayoutPriors.measured_elsewhere(where.model)
    return LayoutLearner(others, priors).fit(LayoutRows(where, Layouts.of([]), np.zeros(0), np.zeros(0)))


def _document(one: RankedLayout) -> dict[str, object]:
    names = ("low", "mid", "high")
    return asdict(one) | {
        "seconds": dict(zip(names, one.seconds, strict=True)),
        "gib": dict(zip(names, one.gib, strict=True)),
    }


def _show(ranked: list[RankedLayout], searched: int, table_given: Path | None) -> None:
    columns = ("layout", "s a step (low..high)", "tokens/s/GPU", "GiB", "P(fits)", *(f"{name} %" for name in PARTS))
    lines = [
        (
            str(one.layout),
            f"{one.seconds[1]:.3g} ({one.seconds[0]:.3g}..{one.seconds[2]:.3g})",
            f"{one.tokens_per_s_per_gpu:.0f}",
            f"{one.gib[1]:.0f}",
            f"{one.p_fits:.2f}",
            *(f"{100 * one.shares[name]:.0f}" for name in PARTS),
        )
        for one in ranked
    ]
    table(columns, lines)
    say()
    say(f"why       {reason(ranked)}")
    learnt = (
        "coefficients of nanotron on H100 (--table learns others)"
        if table_given is None
        else f"coefficients from {table_given}"
    )
    say(f"searched  {searched} layouts, {learnt}")
