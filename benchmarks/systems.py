"""What the published laws foresee of published measurements, from a few of them.

    COTUNE_DATA=... python benchmarks/systems.py

dlperf   per framework and network on 1 to 32 V100s (eight a node): four designed points of each precision and
         variant predict the rest of it; all points of one and two nodes predict four (laws that read named
         axes learn from all precisions and variants at once, the others from each by itself).
zeus     per workload and GPU at the highest power limit: epoch seconds of all batch sizes from
         three (smallest, middle, largest, in logarithms).
mlperf   samples to the target quality at each global batch, from the other batches; a batch's runs count by
         their median (one run of gpt3 is published with ten times the samples of its twelve fellows).

The four points are the A-optimal design for the ring law (its letters scaled to their mean effect): of
all quadruples the one with the least trace of the inverse information, found by trying them all.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cotune import registry
from cotune.predict import SecondsPredictor, TooFewSamples
from cotune.predict.predictors.auto import with_nodes
from cotune.predict.predictors.samples_to_target import line
from cotune.space import Configs
from cotune.types import Config, Floats, Job, Sample, axes_of

EXAMPLES = 1_000_000
PER_NODE = 8
LAWS = (
    "ring",
    "shared_ring",
    "saturating",
    "pollux",
    "optimus",
    "ernest",
    "amdahl",
    "cynthia",
    "log_isotonic",
    "eta",
    "auto",
)
ACROSS = ("ring_of_nodes", "gaussian", *LAWS)


def errors(law: str, seen: Sequence[Sample], unseen: Sequence[Sample]) -> Floats:
    """Return |predicted / measured - 1| of what was not seen."""
    predictor = with_nodes(registry.create("predictor", law), PER_NODE)
    assert isinstance(predictor, SecondsPredictor)
    found = predictor.fit_seconds(Job("bench", examples=EXAMPLES), seen)
    predicted = found.predict(Configs.of([sample.config for sample in unseen]))
    return np.asarray(np.abs(predicted / np.array([sample.epoch_seconds for sample in unseen]) - 1))


def series(folder: Path) -> dict[tuple[str, str], list[list[Sample]]]:
    """Return the measured series (one precision and variant each) of every framework and network."""
    found: dict[tuple[str, str, str, str], list[Sample]] = defaultdict(list)
    with (folder / "throughput.csv").open() as file:
        for row in csv.DictReader(file):
            key = row["framework"], row["model"], row["precision"], row["variant"]
            axes = axes_of({"precision": row["precision"], "variant": row["variant"]})
            config = Config.data_parallel(int(row["batch_per_gpu"]), int(row["gpus"]), "v100", axes=axes)
            found[key].append(Sample(config, 1.0, EXAMPLES / float(row["samples_per_s"])))
    grouped: dict[tuple[str, str], list[list[Sample]]] = defaultdict(list)
    for (framework, model, *_), samples in found.items():
        grouped[framework, model].append(samples)
    return dict(sorted(grouped.items()))


def designed(samples: Sequence[Sample], count: int = 4) -> list[int]:
    """Return the places of the samples that tell the letters of the ring law best, without looking at their seconds."""
    configs = Configs.of([sample.config for sample in samples])
    nodes = np.ceil(configs.workers / PER_NODE)
    local = configs.workers / nodes
    rows = np.column_stack([np.ones(len(configs)), configs.batch_size, (local - 1) / local, (nodes - 1) / nodes])
    rows = rows / np.maximum(rows.mean(axis=0), 1e-9)
    ridge = 1e-3 * np.eye(rows.shape[1])
    scores = {
        chosen: float(np.trace(np.linalg.inv(rows[list(chosen)].T @ rows[list(chosen)] + ridge)))
        for chosen in itertools.combinations(range(len(samples)), count)
    }
    best = min(scores, key=scores.__getitem__)
    return list(best)


def dlperf(folder: Path) -> dict[str, object]:
    four: dict[str, dict[str, Floats]] = {law: {} for law in LAWS}
    across: dict[str, dict[str, Floats]] = {law: {} for law in ACROSS}
    for (framework, model), group in series(folder).items():
        name = f"{framework} {model}"
        for law in LAWS:
            if few := [errors(law, *parts) for samples in group if (parts := _designed(samples))]:
                four[law][name] = np.concatenate(few)
        for law in ACROSS:
            whole = getattr(registry.create("predictor", law), "reads_axes", False)
            alike = [list(itertools.chain(*group))] if whole else group
            if nodes := [errors(law, *parts) for samples in alike if (parts := _by_nodes(samples))]:
                across[law][name] = np.concatenate(nodes)
    print("\ndlperf: MAPE from four designed points, on the rest")
    show(four)
    print("\ndlperf: MAPE at four nodes from one and two")
    show(across)
    return {"four": means(four), "nodes": means(across)}


def _designed(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]] | None:
    """Return four designed samples and the rest, where there is a rest."""
    if len(samples) <= 4:
        return None
    chosen = designed(samples)
    return [samples[place] for place in chosen], [one for place, one in enumerate(samples) if place not in chosen]


def _by_nodes(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]] | None:
    """Return the samples of one and two nodes and those of more, of the variants that have both."""
    small = [sample for sample in samples if sample.config.workers <= 2 * PER_NODE]
    two = {sample.config.axes for sample in small if sample.config.workers > PER_NODE}
    large = [sample for sample in samples if sample.config.workers > 2 * PER_NODE and sample.config.axes in two]
    return (small, large) if large else None


def means(found: dict[str, dict[str, Floats]]) -> dict[str, object]:
    return {law: {name: float(values.mean()) for name, values in rows.items()} for law, rows in found.items()}


def show(found: dict[str, dict[str, Floats]]) -> None:
    names = list(dict.fromkeys(name for rows in found.values() for name in rows))
    print(f"{'':34s}{'points':>7s}" + "".join(f"{law:>13s}" for law in found))
    for name in names:
        count = max(len(rows.get(name, ())) for rows in found.values())
        cells = [f"{rows[name].mean():13.1%}" if name in rows else f"{'':13s}" for rows in found.values()]
        print(f"{name:34s}{count:7d}" + "".join(cells))
    for word, total in (("mean over points", np.mean), ("worst of these", np.max)):
        groups = [[rows[name] for name in names if name in rows] for rows in found.values()]
        values = [total(np.concatenate(g)) if total is np.mean else max(v.mean() for v in g) for g in groups]
        print(f"{word:34s}{'':7s}" + "".join(f"{value:13.1%}" for value in values))


def zeus(folder: Path) -> dict[str, object]:
    found: dict[str, dict[str, Floats]] = {law: {} for law in LAWS}
    for path in sorted(folder.glob("*/power-*.csv")):
        with path.open() as file:
            rows = list(csv.DictReader(file))
        for optimizer in sorted({row["optimizer"] for row in rows}):
            own = [row for row in rows if row["optimizer"] == optimizer]
            limit = max(float(row["power_limit"]) for row in own)
            samples = [
                Sample(Config.data_parallel(int(row["batch_size"]), 1), 1.0, float(row["time_per_epoch"]))
                for row in sorted(own, key=lambda row: int(row["batch_size"]))
                if float(row["power_limit"]) == limit
            ]
            if len(samples) < 4:
                continue
            logs = np.log([sample.config.batch_size for sample in samples])
            middle = int(np.argmin(np.abs(logs - (logs[0] + logs[-1]) / 2)))
            chosen = {0, middle, len(samples) - 1}
            seen = [samples[place] for place in sorted(chosen)]
            rest = [sample for place, sample in enumerate(samples) if place not in chosen]
            name = f"{path.parent.name.split('-')[0]} {path.stem.removeprefix('power-')} {optimizer}"
            for law in LAWS:
                try:
                    found[law][name] = errors(law, seen, rest)
                except TooFewSamples:
                    continue
    print("\nzeus: MAPE of epoch seconds at other batch sizes, from three")
    show(found)
    return means(found)


def mlperf(folder: Path) -> dict[str, object]:
    points: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (folder / "epochs_to_converge.csv").open() as file:
        for row in csv.DictReader(file):
            points[row["benchmark"]][int(row["batch_size"])] += [float(value) for value in row["epochs"].split(";")]
    found: dict[str, Floats] = {}
    for name, by_batch in sorted(points.items()):
        batches = np.array(sorted(by_batch), dtype=np.float64)
        needed = np.array([np.median(by_batch[int(batch)]) for batch in batches])
        if len(batches) < 3:
            continue
        off = []
        for place in range(len(batches)):
            kept = np.arange(len(batches)) != place
            off.append(abs(line(batches[kept], needed[kept])(batches[place : place + 1])[0] / needed[place] - 1))
        found[name] = np.array(off)
    print("\nmlperf: samples to the target at a batch left out")
    for name, values in found.items():
        print(f"{name:34s}{len(values):7d}{values.mean():13.1%}")
    every = np.concatenate(list(found.values()))
    print(f"{'mean over points, over benchmarks':34s}{len(every):7d}{every.mean():13.1%}", end="")
    print(f"{np.mean([values.mean() for values in found.values()]):13.1%}")
    return {name: float(values.mean()) for name, values in found.items()}


def main() -> None:
    if "COTUNE_DATA" not in os.environ:
        sys.exit("set COTUNE_DATA to the folder that holds dlperf_v100/, zeus/ and mlperf_rcp/")
    data = Path(os.environ["COTUNE_DATA"])
    document = {
        "dlperf": dlperf(data / "dlperf_v100"),
        "zeus": zeus(data / "zeus"),
        "mlperf": mlperf(data / "mlperf_rcp"),
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
