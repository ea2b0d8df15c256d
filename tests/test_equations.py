"""The map from the sources to the code: every place it names is imported, and run here or by the test that it names."""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from cotune.cli.app import app
from cotune.cluster.policies.las import Las
from cotune.cluster.policies.optimus import Optimus
from cotune.cluster.simulate import simulate
from cotune.cluster.testing import elastic, rigid
from cotune.lab.bench.prediction import bench_prediction
from cotune.lab.predictors.optimus import Optimus as OptimusLaws
from cotune.lab.predictors.simple_laws import Eta
from cotune.modelling.counting.profiler import profiled
from cotune.modelling.layer_sums import read_network, summed_seconds
from cotune.modelling.paleo_torch import layers_of
from cotune.modelling.predictors.layerwise import Layerwise
from cotune.modelling.predictors.paleo import Platform, step
from cotune.modelling.workloads.named import find
from cotune.modelling.workloads.random_layers import Collection, collect
from cotune.placement.pipeline import ctr as networks
from cotune.placement.testing import ctr
from cotune.predict.countdown import Countdown
from cotune.predict.loss_curve import epochs_to
from cotune.space import Configs
from cotune.types import Cluster, Config, Device, Evaluation, Job, Quantity, Sample
from modelling.layer_worlds import layers

ROOT = Path(__file__).parents[1]
Place = tuple[str, str]  # a file and what is named in it
ELSEWHERE = {  # what runs in processes of its own, and is really started by these tests
    "worker/servers.py": "run/test_parameter_servers.py",
    "run/engines/local.py": "run/test_local.py",
    "run/engines/ray.py": "run/test_ray.py",
    "run/engines/slurm.py": "run/test_slurm.py",
    "placement/staged.py": "placement/pipeline/test_staged.py",
    "placement/pipeline/tables.py": "placement/pipeline/test_pipeline_training.py",
    "placement/pipeline/table_servers.py": "placement/pipeline/test_pipeline_checkpoints.py",
    "placement/pipeline/shards.py": "placement/pipeline/test_shards.py",
    "placement/episodes.py": "placement/test_episodes.py",
    "lab/bench/layers.py": "modelling/predictors/test_layerwise.py",
    "modelling/verbs/_inspect.py": "modelling/test_model_verbs.py",
    "reports/figures.py": "reports/test_page.py",
    "benchmarks/placement.py": "test_docs.py",
}


def rows() -> Iterator[tuple[str, list[Place]]]:
    for line in (ROOT / "docs" / "equations.md").read_text().splitlines():
        if line.startswith("| ") and not line.startswith(("| in the", "| ---")):
            cells = line.split("|")
            yield cells[1].strip(), re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", cells[3])


ROWS = list(rows())


def module_of(file: str) -> ModuleType:
    if not file.startswith("benchmarks/"):
        return importlib.import_module("cotune." + file.removesuffix(".py").replace("/", "."))
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module(Path(file).stem)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.parametrize(("source", "places"), ROWS, ids=[source for source, _ in ROWS])
def test_every_place_that_is_named_can_be_imported(source: str, places: list[Place]) -> None:
    assert places, f"{source} is implemented nowhere"
    for file, name in places:
        found: Any = module_of(file)
        for part in filter(None, name.split(".")):
            found = getattr(found, part)


@contextmanager
def watched() -> Iterator[set[tuple[str, str]]]:
    """Collect the file and qualified name of every function that is called meanwhile."""
    called: set[tuple[str, str]] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield called
    finally:
        sys.setprofile(before)


def test_every_place_that_is_named_runs(tmp_path: Path) -> None:
    with watched() as called:
        _joint_paper()
        _time_prediction(tmp_path)
        _placement(tmp_path)
    idle = {f"{file}:{name}" for _, places in ROWS for file, name in places if not _has_run(file, name, called)}
    elsewhere = {place for place in idle if place.partition(":")[0] in ELSEWHERE}
    assert idle - elsewhere == set()
    for place in elsewhere:
        assert (ROOT / "tests" / ELSEWHERE[place.partition(":")[0]]).is_file(), place


def _has_run(file: str, name: str, called: set[tuple[str, str]]) -> bool:
    """Whether a function, or any method of a class, was called in a file; without a name, anything in it."""
    path = str(ROOT / file) if file.startswith("benchmarks/") else f"/cotune/{file}"
    own = {qualified for where, qualified in called if where.endswith(path)}
    return any(not name or one == name or one.startswith(f"{name}.") for one in own)


def _joint_paper() -> None:
    """Do the evaluation of the joint paper again on one small recording."""
    paper = module_of("benchmarks/paper.py")
    work = paper.Workload.of(ROOT / "recordings" / "lenet5-mnist-slices")
    for part in paper.PARTS.values():
        assert list(part(work))
    assert "| 8 |" in module_of("benchmarks/paper_savings.py").figure(work)
    list(bench_prediction([ROOT / "recordings" / "lenet5-mnist-slices"], ["eta"], [4], draws=1, processes=1))
    for name in ("lenet5", "cifar10dnn", "resnet18", "vgg19"):
        find(name).build()


def _time_prediction(folder: Path) -> None:
    job, config = Job("job", examples=1000), Config.data_parallel(10, 2, servers=1)
    curve = tuple(Evaluation(e, 0.95 - 1 / (0.5 * e + 1.5), e) for e in range(1, 9))
    samples = [Sample(Config.data_parallel(10, w, servers=1), 8.0, 10.0 / w, curve=curve, seconds=80.0) for w in (1, 2)]
    assert epochs_to(job, samples[0], 0.9).epoch
    OptimusLaws().fit_seconds(job, samples).predict(Configs.of([config]))
    assert OptimusLaws().fit_accuracy(job, samples).remark
    Eta().fit_seconds(job, samples)
    Countdown().left(Quantity(9.0, 9.0, 9.0, "assumed"))
    cluster = Cluster((Device("gpu", 8, 1.0),))
    for policy in (Optimus(interval=5.0), Las()):
        simulate([*rigid(0, 6), *elastic(1, 6)], cluster, policy)
    lenet5 = find("lenet5")
    timed = {kind: layers(kind, 50) for kind in ("conv", "dense", "pool")}
    assert summed_seconds(read_network(lenet5, 4, "sgd"), timed, "fast", Layerwise(epochs=1)) >= 0
    assert list(collect(folder / "layers", ("dense",), 1, "cpu", Collection(runs=1, repeats=1)))
    assert profiled(lenet5, 2, "cpu", steps=1).types_for(0.9)
    step(layers_of(lenet5)[0], Platform(1e12, 1e11, 1e9, 1e10, 0.6, 0.7), batch=4, workers=2, scheme="one_to_all")


def _placement(folder: Path) -> None:
    (folder / "profile.json").write_text(json.dumps(ctr(random.Random(2), 4, 2)))
    searches = "exact,brute_force,genetic(rounds=3),greedy,bayesian(rounds=5),cpu_only,gpu_only,aibox"
    words = ["place", str(folder / "profile.json"), "--throughput", "5000", "--examples", "1e6"]
    words += ["--search", f"{searches},reinforce(rounds=2,pretrain=1)"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    for make in (networks.ctrdnn, networks.two_emb, networks.matchnet, networks.nce):
        make()
