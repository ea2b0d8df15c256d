"""`cotune bench`: compare strategies and predictors on measured truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cotune import registry
from cotune.cli.options import Json, Seed, numbers
from cotune.cli.output import emit_json, note, say, table
from cotune.errors import UsageError
from cotune.lab.bench.curves import bench_curves, curve_summaries
from cotune.lab.bench.layers import MODELS, LayerRefusal, LayerRow, bench_layers
from cotune.lab.bench.layout_summary import anchors, summaries
from cotune.lab.bench.layouts import bench_layouts, forecast_left_out
from cotune.lab.bench.memory import bench_memory
from cotune.lab.bench.other_seeds import SeedBenchmark, bench_other_seeds, seed_summaries, told_summaries
from cotune.lab.bench.planning import bench_planning, planning_summaries
from cotune.lab.bench.prediction import bench_prediction, prediction_summaries
from cotune.lab.bench.running import SLACKS, bench_running, running_summaries
from cotune.lab.bench.step_tables import Column, bench_steps, step_summaries
from cotune.lab.bench.tasks import Figures, figure, grouped, recording_folders
from cotune.modelling.layer_rows import read_layers
from cotune.modelling.layouts.tables import PLAYBOOK, VTRAIN, LayoutGroup, find_table, read_table
from cotune.predict.learning.prior import without
from cotune.registry import several

Recordings = Annotated[
    list[Path], typer.Option("--recordings", help="Recordings, or folders of them. May be given several times.")
]
Every = Annotated[int, typer.Option("--every", min=1, help="Ask each n-th goal only, for a quick look.")]
Processes = Annotated[int, typer.Option("--processes", min=1, help="How many work at once.")]

_SEEN = {True: "seen", False: "unseen"}

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
    document = documents(rows=judged.rows) | {"summary": totals, "left_out": judged.left_out}
    columns = {
        "strategy": "{strategy}",
        "goals": "{goals}",
        "planned": "{planned:.1%}",
        "of these met": "{met:.1%}",
        "P(met), mean": "{probability:.2f}",
        "cost / best: median": "{median:.2f}",
        "mean": "{mean:.2f}",
        "with measuring: median": "{median_with_profile:.2f}",
        "with measuring: mean": "{mean_with_profile:.2f}",
        "samples": "{profile_samples:.1f}",
    }
    title = "costs are those of plans that met their goal, over the cost of the best config"
    _show("planning", json, document, (title, totals, columns))


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
    document = documents(rows=rows) | {"summary": running_summaries(rows), "left_out": left_out}
    columns = {
        "deadline": "{slack:g} x",
        "method": "{method}",
        "goals": "{goals}",
        "met": "{met:.1%}",
        "spent: median": "{median:.2f}",
        "mean": "{mean:.2f}",
        "missed + 2: median": "{median_score:.2f}",
        "missed + 2: mean": "{mean_score:.2f}",
        "moves": "{moves:.1f}",
        "P told": "{told:.2f}",
    }
    title = "everything spent, over the cost of the static oracle"
    _show("running", json, document, (title, document["summary"], columns))


def _show_other_seeds(found: SeedBenchmark, json: bool) -> None:
    """Print how often the confidence that was asked for came true on seeds that no probe saw."""
    told = told_summaries(found.told)
    document = documents(rows=found.rows) | {"summary": seed_summaries(found.rows), "told": told}
    parts = {**grouped(found.rows, lambda row: row.recording), "all": found.rows}
    by_recording = [{"recording": name} | total for name, own in parts.items() for total in seed_summaries(own)]
    seeds = {
        "recording": "{recording}",
        "P asked": "{confidence:g}",
        "goals": "{goals}",
        "refused": "{refused}",
        "P told, mean": "{probability:.2f}",
        "met by other seeds": "{met:.1%}",
    }
    configs = {
        "P told": "{low:g} to {high:g}",
        "profiles": "{profiles}",
        "configs": "{configs}",
        "P told, mean": "{probability:.2f}",
        "met by other seeds": "{met:.1%}",
    }
    _show(
        *("planning", json, document | {"left_out": found.left_out}),
        ("probes see one seed, the others judge", by_recording, seeds),
        ("all configs, chosen or not; every profile weighs the same", told, configs),
    )


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
    document = documents(rows=rows) | {"summary": prediction_summaries(rows)}
    columns = {
        "quantity": "{quantity}",
        "predictor": "{predictor}",
        "samples": "{samples}",
        "recordings": "{recordings}",
        "MRE, median": "{mre:.1%}",
        "MAPE, median": "{mape:.1%}",
        "MAPE, worst": "{worst_mape:.1%}",
        "coverage": "{coverage:.0%}",
        "lowest": "{lowest_coverage:.0%}",
        "interval score": "{interval_score:.2f}",
    }
    title = "errors on configs not seen; coverage of the 80 % interval"
    _show("prediction", json, document, (title, document["summary"], columns))


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
    columns = {name: f"{{{name}}}" for name in ("question", "task", "shown", "rows")}
    columns |= {name: f"{{{name}:.3g}}" for name in ("inside", "error", "width", "p_met", "met")}
    title = "share of ends inside the 80 % interval, median error and width, mean P(met), share that met"
    _show("curves", json, {"rows": rows, "summary": totals}, (title, totals, columns))


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
    tables = read_layers(folder)
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
    columns = {
        "layer": "{kind}",
        "model": "{model}",
        "device": "{device}",
        "seen: rows": "{seen_learnt}",
        "seen: MAPE": "{seen_mape:.1%}",
        "seen: RMSE ms": "{seen_rmse:.3g}",
        "unseen: rows": "{unseen_learnt}",
        "unseen: MAPE": "{unseen_mape:.1%}",
        "unseen: RMSE ms": "{unseen_rmse:.3g}",
    }
    title = "errors on layers not seen, of a device that was and of one left out"
    _show("layers", json, documents(rows=found, refused=refused), (title, list(_by_device(found)), columns))
    for no in () if json else refused:
        say(f"no answer for {no.kind} of {no.device} by {no.model}: {no.reason}")


def _by_device(found: list[LayerRow]) -> Iterator[Figures]:
    """Yield the errors of each kind, model and device, and their medians over devices."""
    for (kind, model), own in grouped(found, lambda row: (row.kind, row.model)).items():
        for device, here in grouped(own, lambda row: row.device).items():
            line: Figures = {"kind": kind, "model": model, "device": device}
            for row in here:
                line |= {f"{_SEEN[row.seen]}_{name}": value for name, value in asdict(row).items()}
            yield line
        parts = grouped(own, lambda row: row.seen).items()
        medians = {f"{_SEEN[seen]}_mape": figure(np.median, "mape", part) for seen, part in parts}
        yield {"kind": kind, "model": model, "device": "median"} | medians


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
        _show_layouts(read_table(path), 12 if measure is None else measure, seed, json)
    else:
        _show_steps(path, 16 if measure is None else measure, draws, seed, json)


def _show_layouts(groups: Sequence[LayoutGroup], measure: int, seed: int, json: bool) -> None:
    """Print how well layouts are predicted and chosen, each model left out in turn."""
    judged = forecast_left_out(groups, measure)
    totals, rules = summaries(judged), anchors(judged, seed)
    document = {"measure": measure, **bench_layouts(judged), "summary": totals, "anchors": rules}
    models = {
        "model": "{model}",
        "tokens/s": "{speed_median_few_nodes:.1%}",
        "best third": "{best_third_mape_few_nodes:.1%}",
        "more nodes": "{best_third_mape_many_nodes:.1%}",
        "memory": "{memory_median:.1%}",
        "in interval": "{coverage:.1%}",
        "crashes foreseen": "{crashes_foreseen:.1%}",
        "false alarms": "{false_alarms:.1%}",
    }
    choices = {
        "within 5 %": "{within_5_percent:.1%}",
        "within 10 %": "{within_10_percent:.1%}",
        "regret, median": "{regret_median:.1%}",
        "a crash chosen": "{crash_chosen:.1%}",
    }
    errors = f"errors up to 4 nodes, and of the best third on more nodes; {measure} measured of each model"
    _show(
        *("layouts", json, document),
        (errors, totals, models),
        ("choices for each number of nodes, against the best measured", totals, {"model": "{model}"} | choices),
        ("the same, all models, by rules", rules, {"chosen by": "{name}"} | choices),
    )


def _show_steps(path: Path, measure: int, draws: int, seed: int, json: bool) -> None:
    """Print how well seconds of steps are predicted from few rows."""
    if measure < 1:
        raise UsageError("a table of steps is learnt from its own rows: --measure 1 or more")
    column = Column("iteration_ms", 1000.0) if path.name == VTRAIN else Column("step_time_s", 1.0)
    rows = bench_steps(read_table(path), column, measure=measure, draws=draws, seed=seed)
    totals = step_summaries(rows, measure)
    columns = {
        "table": "{table}",
        "rows": "{rows}",
        "learnt from": "{learnt_from}",
        "median error": "{median_error:.1%}",
        "MAPE": "{mape:.1%}",
        "80 % interval covers": "{coverage:.0%}",
    }
    title = f"seconds of a step, rows not seen, medians over {draws} draws"
    document = {"rows": rows, "choices": [], "measure": measure, "summary": totals}
    _show("layouts", json, document, (title, totals, columns))


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
    lines = [
        {"family": name} | total
        for name, total in {**found["families"], "all": found["summary"], "all, nvidia-smi": found["nvidia"]}.items()
    ]
    columns = {
        "family": "{family}",
        "peaks": "{rows}",
        "median": "{median:.1%}",
        "p90": "{p90:.1%}",
        "worst": "{worst:.1%}",
        "in interval": "{within:.0%}",
        "failures foreseen": "{foreseen} of {failures}",
        "refused": "{refused} of {ran}",
    }
    title = "errors of torch's peak, and what was expected not to fit"
    _show("memory", json, found, (title, lines, columns))


def _show(name: str, json: bool, document: Figures, *tables: tuple[str, Sequence[Figures], Mapping[str, str]]) -> None:
    """Print a document as JSON; or tables of a title, entries and the texts of their columns, and what was left out."""
    if json:
        emit_json(f"bench.{name}", document)
        return
    for title, entries, columns in tables:
        if entries:
            lines = [[_cell(text, entry) for text in columns.values()] for entry in entries]
            table(list(columns), lines, title=title)
            say()
    for one in document.get("left_out", ()):
        say(f"left out: {one['recording']}: {one['reason']}")


def _cell(text: str, figures: Figures) -> str:
    """Return a text with its figures; nothing where one of them is missing or None."""
    try:
        return text.format_map(figures)
    except (KeyError, TypeError):
        return ""


def documents(**records: Sequence[Any]) -> Figures:
    """Return lists of records by their names, as JSON has them."""
    return {name: [asdict(one) for one in many] for name, many in records.items()}


def _named(given: list[str] | None) -> list[str]:
    """Return names given one by one, with commas between, or both."""
    return [name for one in given or [] for name in several(one)]
