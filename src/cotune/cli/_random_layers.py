"""Single layers on the command line: timing random ones, and judging models of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotune.bench.layers import Row


def time_layers(count: int, kinds: str, into: Path, budget: str | None, *, seed: int, json: bool) -> None:
    """Time random layers on the device at hand and say what was learnt."""
    from cotune.cli._output import emit_json, note, progress, say
    from cotune.errors import UsageError, missing_extra, suggestion
    from cotune.predict._layer_rows import SHAPES
    from cotune.units import duration, seconds

    wanted = tuple(word.strip() for word in kinds.split(","))
    for word in wanted:
        if word not in SHAPES:
            known = ", ".join(SHAPES)
            raise UsageError(f"no kind of layer named {word!r}; there are {known}{suggestion(word, SHAPES)}")
    try:
        import torch
    except ImportError:
        raise missing_extra("torch, which runs the layers,", "torch") from None
    from cotune.workloads.random_layers import Collection, collect, device_name

    device = "cuda" if torch.cuda.is_available() else "cpu"
    begun = time.monotonic()
    deadline = None if budget is None else begun + seconds(budget)
    timed = failed = 0
    with progress(float(count)) as shown:
        for layer in collect(into, wanted, count, device, Collection(seed=seed), deadline=deadline):
            timed, failed = timed + 1, failed + (layer.ms is None)
            if layer.ms is None:
                note(f"could not run {layer.kind} {layer.shape}: its row has no time")
            if (layer.number + 1) % 10 == 0 or shown.total <= 20:
                pace = (time.monotonic() - begun) / timed
                left = pace * (len(wanted) * (count - layer.number) - wanted.index(layer.kind) - 1)
                shown.update(layer.number + 1, f"{layer.number + 1} of {count} layers of each kind", left)
    name, spent = device_name(device), time.monotonic() - begun
    files = [str(into / f"{kind}_{name}.csv") for kind in wanted]
    if json:
        facts = {"device": name, "timed": timed, "failed": failed, "seconds": spent, "files": files}
        emit_json("profile.random_layers", facts)
        return
    say(f"timed {timed - failed} layers on {name} in {duration(spent)}" + (f", {failed} failed" if failed else ""))
    say(f"they are in {', '.join(files)}; the same command goes on from there")
    say(f"next: cotune bench layers {into}")


def judge_layers(
    folder: Path, models: list[str] | None, *, across: int | None, rows: int | None, unseen: bool, processes: int,
    seed: int, json: bool,
) -> None:  # fmt: skip
    """Train and judge layer models on the tables in a folder, and print the errors."""
    from dataclasses import asdict

    import numpy as np

    from cotune.adapters.layers import read_timed_layers
    from cotune.bench.layers import MODELS, bench_layers
    from cotune.cli._output import emit_json, note

    tables = read_timed_layers(folder)
    if rows is not None:
        rng = np.random.default_rng(seed)
        tables = {kind: table.take(rng.permutation(len(table))[:rows]) for kind, table in tables.items()}
    found: list[Row] = []
    for row in bench_layers(tables, models or MODELS, across=across, seed=seed, processes=processes, unseen=unseen):
        note(f"{row.kind} {row.device} {'seen' if row.seen else 'unseen'} by {row.model}: MAPE {row.mape:.1%}")
        found.append(row)
    if json:
        emit_json("bench.layers", {"rows": [asdict(row) for row in found]})
        return
    _show(found)


def _show(found: list[Row]) -> None:
    """Print one table: a line for each kind, model and device, and the median over devices."""
    from statistics import median

    from cotune.cli._output import table

    lines = []
    for kind, model in dict.fromkeys((row.kind, row.model) for row in found):
        own = [row for row in found if (row.kind, row.model) == (kind, model)]
        for device in dict.fromkeys(row.device for row in own):
            here = {row.seen: row for row in own if row.device == device}
            lines.append((kind, model, device, *_cells(here.get(True)), *_cells(here.get(False))))
        middle = [[row.mape for row in own if row.seen == seen] for seen in (True, False)]
        words = [f"{median(values):.1%}" if values else "" for values in middle]
        lines.append((kind, model, "median", "", words[0], "", "", words[1], ""))
    columns = ("layer", "model", "device", "rows", "seen: MAPE", "RMSE ms", "rows", "unseen: MAPE", "RMSE ms")
    table(columns, lines, title="errors on layers not seen, of a device that was and of one left out")


def _cells(row: Row | None) -> tuple[str, str, str]:
    return ("", "", "") if row is None else (str(row.learnt), f"{row.mape:.1%}", f"{row.rmse:.3g}")
