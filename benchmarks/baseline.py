"""What must not get worse: every row is a command of this checkout, with the figures that are read from its JSON.

    COTUNE_DATA=... python benchmarks/baseline.py OUT [--jobs 2] [--only WORD]
    python benchmarks/baseline.py OUT --compare BEFORE/baseline.json      # exit 1 where a row is outside

A row is stored as OUT/NAME.json when it ends, and is not run again while that file is there; all of them together are
OUT/baseline.json and the table OUT/baseline.txt. Rows on published measurements need COTUNE_DATA, the folder with them;
what is imported from it lies in OUT. Rows that measure time run last, one after another. A figure is written with its
tolerance, in the unit of the figure or in per cent of it:

    met+0.01     higher is better: it may fall by 0.01
    mean-2%      lower is better: it may rise by 2 per cent
    inside~0.02  it may change by 0.02 either way
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
IMPORTED = {
    "recent": ("mlperf_recent", "mlperf_recent"),  # name of the importer, folder of the shared data
    "pollux": ("pollux", "pollux"),
    "mlperf": ("mlperf_v0_6", "mlperf-v0.6"),
    "zeus": ("zeus", "zeus"),
}
OWN = "recordings recordings/published recordings/second"
EVERY_CURVE = f"{OWN} {{pollux}} {{mlperf}} {{zeus}} {{recent}}"
TOLERANCE = re.compile(r"(\w+)([-+~])([\d.]+)(%?)")

# Figures of commands that hold no random numbers but seeded ones may differ by rounding alone, of choices among configs
# by a goal or two of a set. Seconds differ by half from run to run on a machine that others use: two commands are
# compared by the ratio of theirs, one by its seconds on a processor.
PLANNING = "planned+0.005 met+0.005 probability~0.01 median-0.5% mean-1% median_with_profile-1% profile_samples-0.2"
SEEDS = "refused-2 probability~0.01 met+0.01"
RUNNING = "met+0.01 median-1% mean-1% told~0.01"
PREDICTION = "mre-0.002 mape-0.002 coverage~0.01 interval_score-1%"
LAYOUTS = (
    "speed_median_few_nodes-0.005 best_third_mape_many_nodes-0.01 memory_median-0.005 coverage~0.02 "
    "crashes_foreseen+0.02 false_alarms-0.01 within_10_percent+0.001 regret_median-0.005 crash_chosen-0.001"
)
STEPS = "median_error-0.002 mape-0.003 coverage~0.02"
MEMORY = "median-0.001 p90-0.002 worst-0.01 within+0.01 foreseen+0 refused-0"


@dataclass(frozen=True)
class Row:
    """A command, the figures to read with their tolerances, and the fields that name an entry of its summary."""

    name: str
    command: str  # `cotune ...`, or a script of benchmarks/; {data}: the shared data, {zeus}: what was imported of it
    figures: str
    by: tuple[str, ...] = ()
    timed: bool = False  # seconds are what is judged: nothing else may run beside it
    repeats: int = 1  # of more than one the figure is the median of their seconds on a processor


def planning(name: str, folder: str, every: int = 1) -> Iterator[Row]:
    """Yield the rows of plans for the goals of a set of recordings; other seeds judge each n-th goal."""
    bench, folders = f"cotune bench planning --recordings {folder} --processes 1 --json", ("strategy",)
    yield Row(f"planning-{name}", f"{bench} --strategy joint", PLANNING, folders)
    yield Row(f"other-seeds-{name}", f"{bench} --other-seeds --every {every}", SEEDS, ("confidence",))


ROWS = (
    *planning("own", "recordings", every=2),
    *planning("published", "recordings/published"),
    *planning("second", "recordings/second"),
    *planning("recent", "{recent}", every=12),
    Row(
        "running-own",
        f"cotune bench running {OWN} --method self,profile --processes 1 --json",
        *(RUNNING, ("slack", "method")),
    ),
    Row(
        "running-recent",
        "cotune bench running {recent} --method self,profile --every 6 --processes 1 --json",
        *(RUNNING, ("slack", "method")),
    ),
    Row(
        "prediction",
        "cotune bench prediction --recordings recordings --recordings {pollux} --recordings {mlperf} "
        "--predictor gaussian,posterior --samples 4,8,16,24 --draws 2 --processes 1 --json",
        *(PREDICTION, ("quantity", "predictor", "samples")),
    ),
    Row("layouts-playbook", "cotune bench layouts {data}/playbook_layouts --json", LAYOUTS, ("model",)),
    Row("layouts-playbook-0", "cotune bench layouts {data}/playbook_layouts --measure 0 --json", LAYOUTS, ("model",)),
    Row("layouts-vtrain", "cotune bench layouts {data}/vtrain --json", STEPS, ("table",)),
    Row("layouts-llm_foundry", "cotune bench layouts {data}/llm_foundry --json", STEPS, ("table",)),
    Row("memory", "cotune bench memory {data}/fms_finetune --json", MEMORY),
    Row("memory-measured", "cotune bench memory {data}/fms_finetune --measured 2 --json", MEMORY),
    Row("few_evaluations", f"few_evaluations.py {EVERY_CURVE} --json", "inside~0.02 score-0.005", ("source",)),
    Row("reach", f"reach.py {EVERY_CURVE} --each 40 --json", "told~0.01 brier-0.002", ("source",)),
    Row("calibration", "calibration.py recordings --curves --json", "score-0.002"),
    Row("run_odds", f"run_odds.py {EVERY_CURVE} --json", "brier-0.002"),
    Row(
        "annealed_ends",
        "annealed_ends.py recordings/annealed-ends.jsonl --json",
        *("size-0.001 inside~0.03", ("seen", "schedule")),
    ),
    Row("eta", "eta.py --replay recordings/eta-traces.json --json", "error-0.002 held~0.03", ("share",)),
    Row("startup", "startup.py", "local_seconds-50% ratio+30%", timed=True),
    Row("help", "cotune --help", "processor_seconds-10%", timed=True, repeats=9),
    Row("service_faults", "service_faults.py --kills 20 --seeds 2 --json", "lost-0 run_twice-0 orphans-0", timed=True),
)  # fmt: skip


def main() -> int:
    """Run the rows that were not run yet, print all of them, and compare them where that is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder of the results")
    parser.add_argument("--only", default="", help="rows whose names hold this word")
    parser.add_argument("--jobs", type=int, default=1, help="rows that run at once")
    parser.add_argument("--compare", type=Path, help="the baseline.json of a run before")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    folders = folders_of(asked.out)
    rows = [row for row in ROWS if asked.only in row.name]
    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(lambda row: run(row, asked.out, folders), [row for row in rows if not row.timed]))
    for row in rows:
        if row.timed:
            run(row, asked.out, folders)
    found = {
        row.name: json.loads(file.read_text()) for row in ROWS if (file := asked.out / f"{row.name}.json").exists()
    }
    (asked.out / "baseline.json").write_text(json.dumps(found, indent=1))
    before = json.loads(asked.compare.read_text()) if asked.compare else {}
    lines = [
        *table(rows, found, before),
        "",
        f"{len(found)} rows in {sum(one['seconds'] for one in found.values()):.0f} s",
    ]
    (asked.out / "baseline.txt").write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n")
    return int(any("OUTSIDE" in line or "missing" in line for line in lines))


def run(row: Row, out: Path, folders: Mapping[str, Path]) -> None:
    """Run one row and store its figures, unless that was done; say why where it cannot be."""
    file = out / f"{row.name}.json"
    if file.exists():
        return
    try:
        command = words(row.command, folders)
    except KeyError as missing:
        print(f"{row.name}: left out: no {missing} without COTUNE_DATA", file=sys.stderr, flush=True)
        return
    processor: list[float] = []
    begun = time.monotonic()
    for _ in range(row.repeats):
        spent = processor_seconds()
        done = call(command)
        processor.append(processor_seconds() - spent)
    took = time.monotonic() - begun
    repeated = {"processor_seconds": statistics.median(processor)}
    try:
        # A benchmark that misses what it asks for ends with another code than 0, and prints its figures.
        figures = repeated if row.repeats > 1 else dict(read(row, document(done.stdout)))
    except (ValueError, LookupError):
        print(f"{row.name}: failed: {done.stdout[-500:]} {done.stderr[-2000:]}", file=sys.stderr, flush=True)
        return
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps({"command": row.command, "seconds": round(took, 1), "figures": figures}, indent=1))
    draft.replace(file)
    print(f"{row.name}: {took:.1f} s", file=sys.stderr, flush=True)


def words(command: str, folders: Mapping[str, Path]) -> Sequence[str]:
    """Return the words of a command with its folders in place; `KeyError` where one is missing."""
    program, *others = command.format_map(folders).split()
    return [sys.executable, *(["-m", program] if program == "cotune" else [f"benchmarks/{program}"]), *others]


def folders_of(out: Path) -> Mapping[str, Path]:
    """Return the shared data and what is imported from it, by the names that commands use; nothing without the data."""
    if "COTUNE_DATA" not in os.environ:
        return {}
    data = Path(os.environ["COTUNE_DATA"])
    found = {"data": data}
    for name, (importer, folder) in IMPORTED.items():
        found[name] = out.resolve() / "imported" / name
        if not found[name].exists():
            call(words(f"cotune import {importer} {data / folder} -o {found[name]}", {})).check_returncode()
    return found


def call(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Return how a command ended; with one thread, so that rows that run at once are as they are alone."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)


def processor_seconds() -> float:
    """Return what all commands so far took of a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def document(text: str) -> dict[str, Any]:
    """Return the JSON that a command printed, alone or as its last line."""
    try:
        return dict(json.loads(text))
    except json.JSONDecodeError:
        return dict(json.loads(text.splitlines()[-1]))


def read(row: Row, whole: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Yield the figures of a row; those of a summary with several entries are named by these."""
    summary = whole.get("summary", whole)
    for entry in summary if isinstance(summary, list) else [summary]:
        name = " ".join(str(entry[field]) for field in row.by)
        for field, *_ in TOLERANCE.findall(row.figures):
            yield f"{name} {field}".strip(), entry[field]


def table(rows: Sequence[Row], found: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a Markdown table: figures, and beside them those of before with what is allowed."""
    yield "| row | figure | before | now | allowed | |" if before else "| row | figure | now |"
    yield "| --- | --- | --- | --- | --- | --- |" if before else "| --- | --- | --- |"
    for row in rows:
        now, old = (one.get(row.name, {}).get("figures", {}) for one in (found, before))
        if not now and (old or not before):
            yield f"| {row.name} | not run or left out" + (" | missing" if old else "")
        allowed = {field: (sign, limit, unit) for field, sign, limit, unit in TOLERANCE.findall(row.figures)}
        for name in dict.fromkeys([*old, *now]):
            one, other = now.get(name), old.get(name)
            if not before:
                yield f"| {row.name} | {name} | {number(one)} |"
                continue
            sign, limit, unit = allowed[name.split()[-1]]
            verdict = "" if within(one, other, sign, float(limit), percent=bool(unit)) else "OUTSIDE"
            yield f"| {row.name} | {name} | {number(other)} | {number(one)} | {sign}{limit}{unit} | {verdict} |"


def within(now: float | None, before: float | None, sign: str, limit: float, *, percent: bool) -> bool:
    """Return whether a figure is no worse than before, but for what is allowed; one that was not there is no worse."""
    if now is None or before is None:
        return before is None
    worse = {"+": before - now, "-": now - before, "~": abs(now - before)}[sign]
    return worse <= (limit * abs(before) / 100 if percent else limit) + 1e-9


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
