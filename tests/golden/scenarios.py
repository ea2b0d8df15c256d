"""The commands whose documents and exit codes are kept, a few to a scenario: of every verb, with every exit code.

All are repeatable: recordings and logs instead of clocks, seeds fixed. Where a real training is started
or the machine is described, only the types of the answer are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from golden.commands import Command, Scenario

_DIGITS = ("digits/cotune.yaml", "digits/train.py")
_TUNED = "import ray-tune inputs/logs/ray_tune"
_GOAL = "--target accuracy=0.6 --deadline 10m"


def _each(name: str, *words: str, copied: tuple[str, ...] = (), needs: str = "") -> Scenario:
    return Scenario(name, tuple(Command(line) for line in words), copied, needs)


def _shapes(name: str, *words: str, copied: tuple[str, ...] = (), needs: str = "") -> Scenario:
    return Scenario(name, tuple(Command(line, shape_only=True) for line in words), copied, needs)


def _recordings() -> Iterator[Scenario]:
    """What is forecast, planned and run on recordings."""
    small, priced, slices = "--recording inputs/small", "--recording inputs/priced", "--recording recordings"
    yield _each(
        "predict-recording",
        f"predict {small}",
        f"predict {small} --all --max-samples 6",
        f"predict {small} -w 4 -b 64 --seed 4",
        f"predict {small} -w 1,8 -b 16,128 --max-device-seconds 60 --predictor ring",
        "predict --recording inputs/speed --predictor ernest",
        f"predict {priced} --all-samples -w 2 -b 32..34",
    )
    for predictor in ("amdahl", "cynthia", "gaussian", "isotonic", "optimus", "pollux"):
        yield _each(
            f"predictor-{predictor.replace('_', '-')}",
            f"predict {small} -w 1,2,4 -b 32 --all-samples --predictor {predictor}",
        )
    yield _each(
        "plan-recording",
        f"plan {small} {_GOAL}",
        f"plan {small} {_GOAL} --prefer fast --confidence 0.8",
        f"plan {small} --deadline 5m --prefer accurate",
        f"plan {small} --epochs 4",
        f"plan {small} {_GOAL} --max-samples 5 --seed 3 --no-history",
        f"plan {priced} --target loss=0.6 --deadline 1h --max-cost 1",
        f"plan {priced} --target loss<=0.6 --deadline 1h --all-samples",
    )
    yield _each(
        "plan-search",
        f"plan {small} {_GOAL} --search tabu",
        f"plan {small} {_GOAL} --search greedy --predictor ring --accuracy-predictor posterior",
    )
    yield _each("plan-lenet5-slices", f"plan {slices}/lenet5-mnist-slices --target 0.985 --deadline 2m")
    yield _each("plan-lenet5-nodes", f"plan {slices}/lenet5-mnist-nodes --target 0.98 --deadline 10m")
    yield _each("plan-cifar10dnn-nodes", f"plan {slices}/cifar10dnn-cifar10-nodes --target 0.6 --deadline 30m")
    yield _each("plan-vgg19-slices", f"plan {slices}/vgg19-cifar10-slices --target 0.7 --deadline 20m")
    yield _each(
        "plan-infeasible",
        f"plan {small} --target accuracy=0.6 --deadline 1s",
        f"plan {small} --target accuracy=0.999 --deadline 1h",
        f"plan {priced} --target loss=0.6 --max-cost 0.0000001",
        f"report {small} --target accuracy=0.6 --deadline 1s",
    )
    yield _each(
        "over-budget", f"plan {small} {_GOAL} --max-device-seconds 0", f"report {small} {_GOAL} --max-device-seconds 5",
        f"predict {small} --max-samples 0",
    )  # fmt: skip
    yield _each(
        "run-recording",
        f"run {small} {_GOAL} --max-device-seconds 100000",
        f"run {small} -w 2 -b 32 --epochs 3",
        f"run {small} -w 8 -b 128 --target accuracy=0.6 --deadline 1s",
        f"run {small} -w 99 -b 16",
        f"run {priced} --target loss=0.7 --deadline 1h --seed 2 --max-device-seconds 100000",
    )
    yield _each(
        "run-without-profile",
        f"run {small} {_GOAL}",
        f"run {small} --target accuracy=0.6 --deadline 1s",
        f"run {priced} --target loss=0.7 --deadline 1h --seed 2 --fixed",
    )
    yield _each(
        "run-plan-of-store",
        f"plan {small} {_GOAL} --store s.db",
        f"run {small} --store s.db",
        f"run {small} --store s.db --target accuracy=0.52",
        "samples --store s.db",
        f"report {small} --store s.db",
        "record --job small --store s.db -o recorded",
        "predict --recording recorded --all-samples -w 1 -b 16",
        "record --job small --store s.db -o recorded",
        "record --job nobody --store s.db -o elsewhere",
    )
    yield _each("report-recording", "report --recording inputs/tiny --target 0.5 --deadline 1h -o page.html")


def _stores() -> Iterator[Scenario]:
    """What is planned from samples in a store, and what is written for other tools."""
    yield _each(
        "import-logs",
        _TUNED,
        _TUNED,
        "import huggingface inputs/logs/huggingface -w 1 -b 64 --metric eval_accuracy",
        "import lightning inputs/logs/lightning --metric val_accuracy --seconds 30s",
        "import lightning inputs/logs/lightning --metric val_accuracy",
        f"{_TUNED} --runs other",
        f"{_TUNED} --metric acuracy",
        copied=_DIGITS,
    )
    yield _each(
        "imported-job",
        _TUNED,
        "samples --job digits",
        "predict",
        "predict --all -w 1..4 -b 16,128",
        "plan",
        "plan --target accuracy=0.75 --deadline 5m --no-measure",
        "plan --deadline 1s",
        "report",
        "record -o recorded",
        copied=_DIGITS,
    )
    kinds = ("torchrun", "slurm", "skypilot", "kubeflow", "ray", "accelerate")
    yield _each(
        "export",
        _TUNED,
        "export slurm",
        "plan",
        *(f"export {kind}" for kind in kinds),
        "export slurm -w 4 -b 16 --epochs 3 --per-node 2 --limit 90m",
        "export kubeflow -w 2 -b 32 --image registry.example/train:1",
        "export torchrun -o start.sh",
        "export torchrun -o start.sh",
        "export torchrun -o start.sh --force",
        "export make",
        copied=_DIGITS,
    )
    yield _each(
        "no-samples", "samples", "samples --job nobody", "predict", "plan --no-measure", "run --no-such-flag",
        "run --resume", "report", "resize 2", copied=_DIGITS,
    )  # fmt: skip
    yield _each(
        "stored",
        "samples --store stored.db",
        "predict --store stored.db --all",
        "plan --store stored.db --no-measure",
        "report --store stored.db",
        "export slurm --store stored.db",
        copied=(*_DIGITS, "stored.db.xz"),
    )
    yield _shapes(
        "training",
        "profile --max-samples 3 -w 1",
        "samples",
        "predict",
        "run -w 1 -b 16",
        "report",
        "run -w 1 -b 64 --target accuracy=0.99 --epochs 2",
        "run --resume",
        "submit . --wait --slots 1",
        copied=_DIGITS,
    )
    yield _shapes(
        "resuming",
        "run -w 1 -b 16 --epochs 4 --restarts 0",
        "run --resume",
        copied=("broken-off/cotune.yaml", "broken-off/train.py"),
    )


def _starting() -> Iterator[Scenario]:
    """How a project begins, and what is there."""
    yield _each(
        "init",
        "init --name digits --examples 1500 -- python train.py {batch_size} {epochs}",
        "init --name digits --examples 1500 -- python train.py {batch_size} {epochs}",
        "init --force --examples 100 -- torchrun train.py",
        "init --examples 0 -- python train.py",
    )
    yield _each(
        "algorithms", *(f"algorithms {kind}" for kind in ("predictor", "search", "policy", "engine", "nothing"))
    )
    yield _shapes("algorithms-all", "algorithms")
    yield _each("prices", "prices a100", "prices abacus")
    yield _shapes("doctor", "doctor")


def _usage() -> Iterator[Scenario]:
    """Wrong words, missing things, files that are none."""
    small = "--recording inputs/small"
    yield _each(
        "usage-errors",
        f"plan {small} --nosuch",
        f"plan {small} --target f1=0.8",
        f"plan {small} --target accuracy<=0.8",
        f"plan {small} --target 0.6 --workers 8..1",
        f"plan {small} --target 0.6 --deadline soon",
        f"plan {small} --target 0.6 --max-cost -3",
        f"plan {small} --target 0.6 --confidence 2",
        f"plan {small} --target 0.6 --search tabu(rounds)",
        "profile --budget soon",
        "plan",
        "frobnicate",
        "place",
        "simulate inputs/plain.csv",
        "samples extra",
    )
    yield _each(
        "not-found",
        "plan --recording nowhere --target 0.6",
        "plan --recording inputs/speed --target 0.6",
        f"plan {small} --target 0.6 --search nothing",
        f"predict {small} --predictor rnig",
        "plan -f nowhere.yaml",
        "import tensorbord .",
        "place nowhere.json --throughput 5",
        "simulate nowhere.csv --cluster 8",
        "bench planning --recordings nowhere",
    )
    yield _each(
        "invalid-files",
        "plan --recording inputs/broken --target 0.6",
        "plan -f inputs/unknown-key.yaml",
        "samples --store inputs/plain.csv",
        "place inputs/plain.csv --throughput 5",
        "simulate inputs/bad-line.csv --cluster 8",
        "simulate inputs/plain.csv --cluster inputs/unknown-key.yaml",
        "import gavel inputs/elasticflow -o out",
    )


def _rooms() -> Iterator[Scenario]:
    """Schedules, placements, benchmarks, published data, models never run."""
    plain = "simulate inputs/plain.csv --cluster"
    yield _each("simulate", f"{plain} 8", f"{plain} 2x4 --policy fifo,srtf,las --restart 5")
    for policy in (
        "backfill", "drf", "edf", "elasticflow", "fair_share", "fifo_skip", "gavel", "gittins", "goodput", "joint",
        "las(variant=pollux)", "sjf", "smallest", "srsf",
    ):  # fmt: skip
        name = policy.split("(")[0].replace("_", "-")
        yield _each(f"policy-{name}", f"{plain} 8 --policy {policy}")
    yield _each(
        "simulate-options",
        f"{plain} 2x4 --placement consolidate --only team=vision",
        f"{plain} inputs/cluster.yaml --deadlines 0.5,1.5 --seed 3",
        f"{plain} 8 --policy fifo,srtf --noise 0.5 --seed 1",
        f"{plain} 8 --policy fifo,srtf --why late --at 50",
        "simulate inputs/sacct.txt --cluster 4 --policy fifo",
        "simulate inputs/tiresias.csv --cluster 4 --policy srtf",
        "simulate inputs/servers.csv --cluster 4 --policy optimus",
        "simulate inputs/bad-line.csv --cluster 4 --skip-bad",
        f"{plain} 8 --policy fifoo",
        f"{plain} 4",
    )
    place = "place inputs/placement.json --throughput"
    yield _each(
        "place",
        f"{place} 20000",
        f"{place} 20000 --search exact,greedy,genetic,aibox,cpu_only,gpu_only",
        f"{place} 20000 --prefer fast --examples 3000000 --epochs 2",
        f"{place} 20000 --no-overlap",
        f"{place} 20000 --free-cuts",
        f"{place} 1000000000",
        f"{place} 0",
        f"{place} 5 --search nothing",
    )
    tiny = "--recordings inputs/tiny --processes 1"
    yield _each("bench-planning", f"bench planning {tiny} --strategy oracle,joint,manual(tries=2) --max-samples 8")
    yield _each(
        "bench-prediction", f"bench prediction {tiny} --predictor ring,ernest,posterior --samples 4,6 --draws 1"
    )
    yield _each(
        "bench-layers", "bench layers inputs/layers --model layer_trees", "bench layers nowhere", needs="sklearn"
    )
    yield _each(
        "import-data-sets",
        "import elasticflow inputs/elasticflow -o out",
        "import gavel inputs/gavel -o out",
        "import zeus inputs/zeus -o out",
        "import pollux inputs/pollux -o out",
        "import dlperf_v100 inputs/dlperf -o out",
        "predict --recording out/pollux-cifar10 --all-samples --all",
    )
    model = "model predict lenet5 --device t4 --examples 60000"
    yield _each(
        "model",
        f"{model} -b 32 --tier counts",
        f"{model} -w 1,4 -b 64 --epochs 3 --network 25gbit --price 0.5 --explain --tier counts",
        f"{model} -b 64 --tier paleo",
        "model inspect lenet5 --counts -b 32 --device cpu",
        "model predict nosuch --device t4",
        needs="torch",
    )
    yield _each(
        "model-memory",
        "model memory mistral-7b --device a100 --method lora --seq 4096 --gpus 4",
        "model memory 7e9 --device h100 --method qlora --batch 1,4 --measured 1=9.5",
        "model memory llama-3-70b --device a100",
        "model memory nosuch --device a100",
        "bench memory nowhere",
    )
    yield _shapes("random-layers", "model layers 1 --kinds dense", needs="torch")


SCENARIOS: tuple[Scenario, ...] = (*_recordings(), *_stores(), *_starting(), *_usage(), *_rooms())
# For tests: all tests of a scenario on one worker, where it is run once.
RUN_ONCE = [pytest.param(one, marks=pytest.mark.xdist_group(f"golden {one}"), id=str(one)) for one in SCENARIOS]
