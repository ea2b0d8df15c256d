"""`cotune bench`: compare strategies and predictors on measured truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer

from cotune import registry
from cotune.cli.options import Json, Seed, numbers
from cotune.cli.output import emit_json, note, say, table
from cotune.errors import UsageError
from cotune.lab.bench.curves import bench_curves, curve_summaries
from cotune.lab.bench.layers import MODELS, LayerRefusal, LayerRow, bench_layers
from cotune.lab.bench.memory import bench_memory
from cotune.lab.bench.other_seeds import SeedBenchmark, bench_other_seeds, seed_summaries, told_summaries
from cotune.lab.bench.planning import bench_planning, planning_summaries
from cotune.lab.bench.prediction import bench_prediction, prediction_summaries
from cotune.lab.bench.running import SLACKS, bench_running, running_summaries
from cotune.lab.bench.tasks import grouped, recording_folders
from cotune.lab.learning.prior import without
from cotune.lab.verbs._layouts import documents, show_layouts, show_steps
from cotune.modelling.layer_rows import read_timed_layers
from cotune.modelling.layouts.tables import PLAYBOOK, find_table, read_table
from cotune.registry import several

Recordings = Annotated[
    list[Path], typer.Option("--recordings", help="Recordings, or folders of them. May be given several times.")
]
Every = Annotated[int, typer.Option("--every", min=1, help="Ask each n-th goal only, for a quick look.")]
Processes = Annotated[int, typer.Option("--processes", min=1, help="How many work at once.")]

bench = typer.Typer(no_args_is_help=True, help="Compare strategies and predictors on recordings.")


@bench.command()
def planning(
    recordings: Recordings,
    strategy: Annotated[list[str] | None, typer.Option("--strategy", help="Only these (default: all).")] = None,
    max_samples: Annotated[int, typer.Option("--max-samples", min=1, help="Most starts of a profile.")] = 16,
    seen: Annotated[
        bool, typer.Option("--seen", help="Jobs that were measured and run before, for another goal.")
    ] = False,
    other_seeds: Annotated[
        bool, typer.Option("--other-seeds", help="Is P(met) true? Probes see one seed of a recording, others judge.")
    ] = False,
    every: Every = 1,
    processes: Processes = 2,
    seed: Seed = 0,
    json: Json = False,
    more: Annotated[list[Path] | None, typer.Argument(help="More recordings.", show_default=False)] = None,
) -> None:
    """Judge how every strategy plans for goals on the true cost-time frontier."""
    names = _named(strategy) or list(registry.names("strategy"))
    folders = recording_folders([*recordings, *(more or [])])
    if other_seeds:
        if strategy or seen:
            raise UsageError("--other-seeds judges `joint` on jobs never seen: leave out --strategy and --seen")
        found = bench_other_seeds(folders, max_samples=max_samples, seed=seed, every=every, processes=processes)
        _show_other_seeds(found, json)
        return
    judged = bench_planning(
        folders, names, max_samples=max_samples, seed=seed, seen=seen, every=every, processes=processes
    )
    totals = planning_summaries(judged.rows)
    if json:
        emit_json("bench.planning", documents(rows=judged.rows, summary=totals) | _left_out(judged.left_out))
        return
    costs = ("cost / best: median", "mean", "with measuring: median", "mean")
    columns = ("strategy", "goals", "planned", "of these met", "P(met), mean", *costs, "samples")
    rows = [
        (
            total.strategy, total.goals, f"{total.planned:.1%}", "" if total.met is None else f"{total.met:.1%}",
            *(
                "" if value is None else f"{value:.2f}"
                for value in (
                    total.probability, total.median, total.mean, total.median_with_profile, total.mean_with_profile
                )
            ),
            f"{total.profile_samples:.1f}",
        )
        for total in totals
    ]  # fmt: skip
    if rows:
        table(columns, rows, title="costs are those of plans that met their goal, over the cost of the best config")
        say()
    _say_left_out(judged.left_out)


@bench.command()
def running(
    recordings: Annotated[list[Path], typer.Argument(help="Recordings, or folders of them.")],
    method: Annotated[list[str] | None, typer.Option("--method", help="Only these (default: all).")] = None,
    slack: Annotated[
        list[float] | None, typer.Option("--slack", min=1, help="Deadlines over the frontier's time (2 and 1.25).")
    ] = None,
    every: Every = 1,
    seen: Annotated[bool, typer.Option("--seen", help="Jobs that were run before, for another goal.")] = False,
    processes: Processes = 2,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Judge measuring and training together, inside the deadline, for jobs without a profile."""
    rows, left_out = bench_running(
        recording_folders(recordings), _named(method), slacks=slack or SLACKS, every=every, seen=seen, seed=seed,
        processes=processes,
    )  # fmt: skip
    totals = running_summaries(rows)
    if json:
        ratios = {"rows": [asdict(row) | {"ratio": row.ratio} for row in rows]}
        emit_json("bench.running", ratios | documents(summary=totals) | _left_out(left_out))
        return
    lines = [
        (
            f"{total.slack:g} x", total.method, total.goals, f"{total.met:.1%}",
            *(f"{value:.2f}" for value in (total.median, total.mean, total.median_score, total.mean_score)),
            f"{total.moves:.1f}", "" if total.told is None else f"{total.told:.2f}",
        )
        for total in totals
    ]  # fmt: skip
    scores = ("spent: median", "mean", "missed + 2: median", "mean")
    columns = ("deadline", "method", "goals", "met", *scores, "moves", "P told")
    table(columns, lines, title="everything spent, over the cost of the static oracle")
    say()
    _say_left_out(left_out)


def _show_other_seeds(found: SeedBenchmark, json: bool) -> None:
    """Print how often the confidence that was asked for came true on seeds that no probe saw."""
    if json:
        document = documents(rows=found.rows, summary=seed_summaries(found.rows), told=told_summaries(found.told))
        emit_json("bench.planning", document | _left_out(found.left_out))
        return
    parts = grouped(found.rows, lambda row: row.recording)
    rows = [
        (name, f"{total.confidence:g}", total.goals, total.refused, f"{total.probability:.2f}", f"{total.met:.1%}")
        for name, own in {**parts, "all": found.rows}.items()
        for total in seed_summaries(own)
    ]
    if rows:
        columns = ("recording", "P asked", "goals", "refused", "P told, mean", "met by other seeds")
        table(columns, rows, title="probes see one seed, the others judge")
        say()
        lines = [
            (f"{one.low:g} to {one.high:g}", one.profiles, one.configs, f"{one.probability:.2f}", f"{one.met:.1%}")
            for one in told_summaries(found.told)
        ]
        told = ("P told", "profiles", "configs", "P told, mean", "met by other seeds")
        table(told, lines, title="all configs, chosen or not; every profile weighs the same")
        say()
    _say_left_out(found.left_out)


@bench.command()
def prediction(
    recordings: Recordings,
    predictor: Annotated[list[str] | None, typer.Option("--predictor", help="Only these (default: all).")] = None,
    samples: Annotated[str, typer.Option("--samples", help="How many samples are learnt from.")] = "4,8,16,24,40",
    draws: Annotated[int, typer.Option("--draws", min=1, help="Random selections of samples, averaged.")] = 3,
    processes: Processes = 2,
    seed: Seed = 0,
    json: Json = False,
    more: Annotated[list[Path] | None, typer.Argument(help="More recordings.", show_default=False)] = None,
) -> None:
    """Measure every predictor's error and intervals on configs it has not seen."""
    counts = numbers(int, samples, "--samples 4,8,16")
    folders = recording_folders([*recordings, *(more or [])])
    rows = bench_prediction(folders, _named(predictor), counts, draws=draws, seed=seed, processes=processes)
    totals = prediction_summaries(rows)
    if json:
        emit_json("bench.prediction", documents(rows=rows, summary=totals))
        return
    table(
        (
            "quantity", "predictor", "samples", "recordings", "MRE, median", "MAPE, median", "MAPE, worst",
            "coverage", "lowest", "interval score",
        ),
        [
            (
                total.quantity, total.predictor, total.samples, total.recordings, f"{total.mre:.1%}",
                f"{total.mape:.1%}", f"{total.worst_mape:.1%}",
                f"{total.coverage:.0%}", f"{total.lowest_coverage:.0%}", f"{total.interval_score:.2f}",
            )
            for total in totals
        ],
        title="errors on configs not seen; coverage of the 80 % interval",
    )  # fmt: skip


@bench.command()
def curves(
    folder: Annotated[Path, typer.Argument(help="A folder with tasks.csv and curves.csv.")],
    shown: Annotated[str, typer.Option("--shown", help="Shares of a run that are shown.")] = "0.25,0.5",
    most: Annotated[int, typer.Option("--most", min=1, help="Most rows of each question and task.")] = 40,
    schedule: Annotated[bool, typer.Option("--schedule/--no-schedule", help="Whether the schedule is known.")] = True,
    priors: Annotated[
        Path | None, typer.Option("--priors", help="Take NAME.json in this folder as the prior of the folder NAME.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Forecast the ends of learning curves, of other seeds and of longer runs."""
    shares = numbers(float, shown, "--shown 0.25,0.5")
    prior = without(priors, folder.resolve().name)
    rows = list(bench_curves(folder, shown=shares, most=most, seed=seed, schedule=schedule, prior=prior))
    totals = curve_summaries(rows)
    if json:
        emit_json("bench.curves", {"rows": rows, "summary": totals})
        return
    names = ("question", "task", "shown", "rows", "inside", "error", "width", "p_met", "met")
    lines = [tuple(f"{total[name]:.3g}" if name in names[4:] else total[name] for name in total) for total in totals]
    title = "share of ends inside the 80 % interval, median error and width, mean P(met), share that met"
    table(names, [(*line, *[""] * (len(names) - len(line))) for line in lines], title=title)


@bench.command()
def layers(
    folder: Annotated[Path, typer.Argument(help="Tables of timed layers, KIND_DEVICE.csv.")],
    model: Annotated[list[str] | None, typer.Option("--model", help="Only these (default: both).")] = None,
    across: Annotated[
        int | None, typer.Option("--across", min=1, help="Most rows of each device that are learnt for another.")
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="Most rows of each kind, for a quick look.")] = None,
    unseen: Annotated[bool, typer.Option("--unseen/--seen-only", help="Leave each device out in turn.")] = True,
    processes: Processes = 1,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train layer models on timed layers and judge them on devices seen and left out."""
    tables = read_timed_layers(folder)
    if rows is not None:
        rng = np.random.default_rng(seed)
        tables = {kind: table.take(rng.permutation(len(table))[:rows]) for kind, table in tables.items()}
    found: list[LayerRow] = []
    refused: list[LayerRefusal] = []
    for row in bench_layers(tables, model or MODELS, across=across, seed=seed, processes=processes, unseen=unseen):
        if isinstance(row, LayerRefusal):
            refused.append(row)
            continue
        note(f"{row.kind} {row.device} {'seen' if row.seen else 'unseen'} by {row.model}: MAPE {row.mape:.1%}")
        found.append(row)
    if json:
        emit_json("bench.layers", documents(rows=found, refused=refused))
        return
    if found or not refused:
        _show_layers(found)
    for no in refused:
        say(f"no answer for {no.kind} of {no.device} by {no.model}: {no.reason}")


@bench.command()
def layouts(
    folder: Annotated[Path, typer.Argument(help="A table of layouts: layouts.csv, multi_node.csv or throughput.csv.")],
    measure: Annotated[
        int | None,
        typer.Option("--measure", min=0, help="Layouts of each model that may be measured (12; rows of a table: 16)."),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Random selections of rows of a table of steps.")] = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Predict and choose layouts of large models, each model left out in turn."""
    path = find_table(folder)
    if path.name == PLAYBOOK:
        show_layouts(read_table(path), 12 if measure is None else measure, seed, json)
    else:
        show_steps(path, 16 if measure is None else measure, draws, seed, json)


def _show_layers(found: list[LayerRow]) -> None:
    """Print one table: a line for each kind, model and device, and the median over devices."""
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


@bench.command()
def memory(
    folder: Annotated[Path, typer.Argument(help="Recorded runs: finetune.csv, and models.csv with their shapes.")],
    measured: Annotated[
        int,
        typer.Option("--measured", min=0, help="How many of a group's smallest batches are seen before the others."),
    ] = 0,
    device: Annotated[str, typer.Option("--device", help="The GPU they ran on.")] = "a100",
    json: Json = False,
) -> None:
    """Judge peak memory and P(fits) on recorded runs, each family left out of what is learnt."""
    found = bench_memory(folder, measured=measured, device=device)
    if json:
        emit_json("bench.memory", asdict(found))
        return
    lines = [
        (
            name, total.rows, *("" if one is None else f"{one:.1%}" for one in (total.median, total.p90, total.worst)),
            "" if total.within is None else f"{total.within:.0%}", f"{total.foreseen} of {total.failures}",
            f"{total.refused} of {total.ran}",
        )
        for name, total in {**found.families, "all": found.summary, "all, nvidia-smi": found.nvidia}.items()
    ]  # fmt: skip
    columns = ("family", "peaks", "median", "p90", "worst", "in interval", "failures foreseen", "refused")
    table(columns, lines, title="errors of torch's peak, and what was expected not to fit")


def _say_left_out(recordings: Iterable[tuple[str, str]]) -> None:
    for name, reason in recordings:
        say(f"left out: {name}: {reason}")


def _left_out(recordings: Iterable[tuple[str, str]]) -> dict[str, list[dict[str, str]]]:
    return {"left_out": [{"recording": name, "reason": reason} for name, reason in recordings]}


def _cells(row: LayerRow | None) -> tuple[str, str, str]:
    return ("", "", "") if row is None else (str(row.learnt), f"{row.mape:.1%}", f"{row.rmse:.3g}")


def _named(given: list[str] | None) -> list[str]:
    """Return names given one by one, with commas between, or both."""
    return [name for one in given or [] for name in several(one)]
