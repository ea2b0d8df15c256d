"""How fast simulations and decisions are, and what deadlines cost under each policy.

python benchmarks/simulate.py speed        cost per job from 1,000 to 1,000,000 jobs
python benchmarks/simulate.py decisions    one decision on a large cluster
python benchmarks/simulate.py crowd        10,000 jobs under policies that decide about all at once (needs COTUNE_DATA)
python benchmarks/simulate.py deadlines    ITP jobs with deadlines (needs COTUNE_DATA)
python benchmarks/simulate.py predicted    the same, when policies believe what cotune predicts from 8 probes
python benchmarks/simulate.py uncertain    joint and elasticflow under noise, over parts of three clusters
python benchmarks/simulate.py targets      Pollux's workloads with targets and deadlines (needs COTUNE_DATA)
python benchmarks/simulate.py bound        joint against a linear bound from below
"""

from __future__ import annotations

import math
import os
import resource
import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from cotune.cluster.node_packing import OnNodes
from cotune.cluster.policies.elasticflow import Elasticflow
from cotune.cluster.policies.gavel import Gavel, fair_shares
from cotune.cluster.policies.goodput import Goodput
from cotune.cluster.policies.joint import Joint
from cotune.cluster.policies.las import Las
from cotune.cluster.policies.optimus import Optimus
from cotune.cluster.policies.orders import Edf, Fifo, Smallest, Srsf, Srtf
from cotune.cluster.policy import Active, Policy, Submission, rigid_config
from cotune.cluster.simulate import simulate
from cotune.cluster.simulate.clusters import parse_cluster
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.simulate.world import Believe, exactly, mistaken
from cotune.cluster.traces import Trace, fitting, read
from cotune.cluster.traces.shaping import with_deadlines, with_targets
from cotune.cluster.traces.speeds import malleable, speed_tables
from cotune.cluster.work import Steady
from cotune.predict.learn import forecaster
from cotune.probe.design import Design
from cotune.space import Axis, Space
from cotune.types import Cluster, Config, Device, Goal, Job, Sample

EXAMPLES = 51_200
CLUSTERS = (("10", "16"), ("05", "16"), ("01", "64"))
PARTS_OF = (("10", "16", 0, 260, 2), ("05", "16", 0, 500, 2), ("05", "16", 1500, 2000, 1), ("01", "64", 0, 400, 1))


def synthetic(jobs: int, gpus: int, load: float = 0.9) -> list[Submission]:
    """Return jobs like Philly's: most on one GPU, run times spread over four decades."""
    rng = np.random.default_rng(0)
    sizes = rng.choice([1, 1, 1, 1, 1, 1, 2, 4, 8, 16], jobs)
    seconds = np.round(np.exp(rng.normal(7.0, 1.8, jobs))) + 1
    gap = float((sizes * seconds).mean()) / (gpus * load)
    submit = np.round(np.cumsum(rng.exponential(gap, jobs)))
    rows = zip(submit.tolist(), sizes.tolist(), seconds.tolist(), strict=True)
    return [Submission(str(place), *row) for place, row in enumerate(rows)]


def speed() -> None:
    print("jobs       policy     seconds  us/job  us/job/log2(n)   MB")
    for jobs in (1_000, 10_000, 100_000, 1_000_000):
        trace = synthetic(jobs, 256)
        for policy in (Fifo(), Srtf(), Srsf(), Smallest(), Las()):
            begun = perf_counter()
            simulate(trace, parse_cluster("256"), policy)
            took = perf_counter() - begun
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            each = took / jobs * 1e6
            name = type(policy).__name__.lower()
            print(
                f"{jobs:<10} {name:<10} {took:7.2f} {each:7.1f} {each / math.log2(jobs):10.2f} {memory:10.0f}",
                flush=True,
            )


def decisions() -> None:
    rng = np.random.default_rng(0)
    shape = rng.uniform(0.5, 1.0, 4000)
    active = []
    for number in range(4000):
        rates = {rigid_config(g): g ** float(shape[number]) for g in range(1, 65)}
        job = Submission(str(number), 0.0, 8, 1e4, work=Steady(float(rng.uniform(1e3, 1e5)), rates))
        active.append(Active(job, number, 1e4, job.work))
    cluster = Cluster((Device("gpu", 100_000, per_node=8),))
    nodes = OnNodes("even", Cluster((Device("gpu", 128_000, per_node=8),)))
    begun = perf_counter()
    given = Optimus().allocate(active, cluster)
    chosen = perf_counter() - begun
    for one in active:
        one.config = given.get(one.job.name)
    for one in sorted((one for one in active if one.config), key=lambda one: one.config.workers if one.config else 0):
        nodes.take(one)
    took = perf_counter() - begun
    tasks = sum(config.workers for config in given.values())
    print(f"optimus    {tasks} tasks of {len(given)} jobs on 16000 nodes: {chosen:.2f} s, with placement {took:.2f} s")
    for one in active:
        one.config = None
    begun = perf_counter()
    Las().allocate(active, cluster)
    print(f"las        4000 jobs: {perf_counter() - begun:.3f} s")
    speeds = rng.uniform(0.2, 1.0, (2048, 3))
    fair_shares(speeds[:2], np.ones(2), np.ones(2), np.ones(3))  # scipy is loaded by now
    begun = perf_counter()
    fair_shares(speeds, rng.choice([1.0, 2.0, 4.0], 2048), np.ones(2048), np.array([512.0, 512.0, 512.0]))
    print(f"gavel      2048 jobs, 3 device types: {perf_counter() - begun:.3f} s")


def crowd() -> None:
    """Play 10,000 jobs of ITP's cluster 08 on 64 GPUs; goodput, which decides every minute, the first 1,000."""
    cluster = parse_cluster("64")
    trace = itp("08", cluster).jobs
    print("policy        jobs   processor s  decisions    met  GPU hours")
    policies: tuple[tuple[Policy, int], ...] = ((Joint(), 10_000), (Elasticflow(), 10_000), (Gavel(), 10_000))
    for policy, jobs in (*policies, (Goodput(), 1_000)):
        begun = process_time()
        played = simulate(trace[:jobs], cluster, policy)
        took, found = process_time() - begun, metrics(played)
        print(
            f"{type(policy).__name__.lower():<12} {jobs:6} {took:12.1f} {len(played.latency):10}"
            f" {found['deadlines']['met']:6} {found['gpu_hours']:10.0f}",
            flush=True,
        )


def deadlines() -> None:
    compare(lambda jobs: {f"{noise:.1f}": mistaken(noise, jobs) for noise in (0.0, 0.1, 0.3)})


def compare(beliefs: Callable[[int], Mapping[str, Believe]]) -> None:
    """Play ITP jobs with deadlines under each policy and each belief."""
    for name, gpus in CLUSTERS:
        cluster = parse_cluster(gpus)
        trace = itp(name, cluster)
        print(f"ITP cluster {name} on {gpus} GPUs, {len(trace.jobs)} jobs")
        print("belief     policy        admitted    met  missed  GPU hours  per deadline met")
        for belief, believe in beliefs(len(trace.jobs)).items():
            for policy in (Joint(), Elasticflow(), Edf(), Las()):
                found = metrics(simulate(trace.jobs, cluster, policy, believe=believe))
                kept, hours = found["deadlines"], found["gpu_hours"]
                print(
                    f"{belief:<9}  {type(policy).__name__.lower():<12} {kept['admitted']:9} {kept['met']:6}"
                    f" {kept['admitted_missed']:7} {hours:10.0f} {hours / max(kept['met'], 1):10.2f}",
                    flush=True,
                )


def itp(name: str, cluster: Cluster) -> Trace:
    """Return the jobs of one of ITP's clusters, malleable by the speeds measured on A100."""
    data = Path(os.environ["COTUNE_DATA"])
    fits = fitting(read(data / "itp/jobs.csv.gz", {"cluster": name}), cluster)
    return malleable(fits, data / "elasticflow", cluster)


def uncertain() -> None:
    """Count who is admitted and who is late under noise, over parts of clusters (jobs from, to) and seeds."""
    print("noise  policy        admitted  missed")
    policies: tuple[Policy, ...] = (Joint(), Elasticflow())
    for noise, policy in product((0.1, 0.3), policies):
        admitted = missed = 0
        for name, gpus, begin, end, seeds in PARTS_OF:
            cluster = parse_cluster(gpus)
            trace = itp(name, cluster).jobs[begin:end]
            for seed in range(seeds):
                believe = mistaken(noise, len(trace), seed)
                kept = metrics(simulate(trace, cluster, policy, believe=believe))["deadlines"]
                admitted, missed = admitted + kept["admitted"], missed + kept["admitted_missed"]
        print(f"{noise:<6} {type(policy).__name__.lower():<12} {admitted:9} {missed:7}", flush=True)


def foreseen(folder: Path, probes: int = 8) -> Believe:
    """Return beliefs as cotune's own predictor gives them, from a few probes of every model."""
    believed: dict[str, dict[Config, float]] = {}
    spreads: dict[str, float] = {}
    for model, table in speed_tables(folder)[1].items():
        cells = {
            rigid_config(gpus, batch // gpus): EXAMPLES / (batch * rate)
            for batch, row in table.items()
            for gpus, rate in row.items()
            if rate > 0 and gpus <= batch
        }
        axes = [sorted({getattr(config, name) for config in cells}) for name in ("workers", "batch_size")]
        only = tuple((axes[0].index(config.workers), axes[1].index(config.batch_size)) for config in cells)
        space = Space((Axis("workers", tuple(axes[0])), Axis("batch_size", tuple(axes[1]))), only=only)
        job, samples = Job(model, examples=EXAMPLES), list[Sample]()
        design = Design(job, Goal(epochs=1), space, Cluster())
        for _ in range(probes):
            config = design.most_telling(samples)
            assert config is not None
            on_gpu = rigid_config(config.workers, config.batch_size)
            samples.append(Sample(config, epochs=1.0, epoch_seconds=cells[on_gpu], ended=True))
        outlook = forecaster(job, samples, Cluster(), accuracy=None)(space.configs(), 1)
        found = dict(zip(outlook.configs, outlook.epoch_seconds, strict=True))
        plain = {config: Config.data_parallel(config.batch_size, config.workers) for config in cells}
        believed[model] = {config: seconds / float(found[plain[config]]) for config, seconds in cells.items()}
        spreads[model] = float(np.median(outlook.spread))
        errors = [abs(factor - 1) for factor in believed[model].values()]
        print(f"{model}: epoch seconds off by {np.mean(errors):.1%} on average, believed spread {spreads[model]:.3f}")

    def believe(job: Submission, number: int) -> Active:
        if not isinstance(job.work, Steady):
            return exactly(job, number)
        factors = believed[job.model]
        rates = {config: rate * factors.get(config, 1.0) for config, rate in job.work.rates.items()}
        return Active(job, number, job.seconds, Steady(job.work.total, rates), spread=spreads[job.model])

    return believe


def predicted() -> None:
    data = Path(os.environ["COTUNE_DATA"])
    believe = foreseen(data / "elasticflow")
    compare(lambda _: {"predicted": believe})


def targets() -> None:
    """Compare joint with elasticflow on all of Pollux's workloads, where joint chooses the batch too."""
    data = Path(os.environ["COTUNE_DATA"])
    traces = [
        with_deadlines(with_targets(read(path)), 0.5, 1.5) for path in sorted((data / "pollux/workloads").glob("*.csv"))
    ]
    print(f"{len(traces)} workloads, {sum(len(trace.jobs) for trace in traces)} jobs with targets and deadlines")
    print("cluster  restart  noise  policy        admitted    met  missed  GPU hours  per deadline met  of both's jobs")
    for (spec, restart), noise in product((("64", 0.0), ("16x4", 30.0)), (0.0, 0.1, 0.3)):
        played = {
            policy: [
                simulate(
                    trace.jobs,
                    parse_cluster(spec),
                    policy,
                    restart=restart,
                    believe=mistaken(noise, len(trace.jobs)),
                )
                for trace in traces
            ]
            for policy in (Joint(), Elasticflow())
        }
        both = [np.all([one.declined == 0 for one in pair], axis=0) for pair in zip(*played.values(), strict=True)]
        for policy, outcomes in played.items():
            kept = [metrics(outcome)["deadlines"] for outcome in outcomes]
            admitted, met, missed = (sum(one[what] for one in kept) for what in ("admitted", "met", "admitted_missed"))
            hours = sum(outcome.service.sum() for outcome in outcomes) / 3600
            shared = sum(outcome.service[rows].sum() for outcome, rows in zip(outcomes, both, strict=True)) / 3600
            print(
                f"{spec:<8} {restart:7.0f} {noise:6.1f}  {type(policy).__name__.lower():<12} {admitted:9} {met:6}"
                f" {missed:7} {hours:10.0f} {hours / max(met, 1):17.2f} {shared:16.0f}",
                flush=True,
            )


def least_gpu_seconds(trace: list[Submission], gpus: int) -> float:
    """Return a bound: the least GPU time of any schedule that changes configs only at deadlines, even in parts."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    ends = np.unique([job.deadline or 0.0 for job in trace])
    stretch = np.diff(ends, prepend=0.0)
    cells: list[tuple[int, int, int, float]] = []  # job, stretch, GPUs, speed
    for row, job in enumerate(trace):
        assert isinstance(job.work, Steady)
        for config, rate in job.work.rates.items():
            cells += [
                (row, slot, config.workers, rate) for slot, end in enumerate(ends) if end <= (job.deadline or 0.0)
            ]
    job_of, slot_of, held, rate_of = (np.array(column) for column in zip(*cells, strict=True))
    long = stretch[slot_of]
    one = np.arange(len(cells))
    jobs, slots = len(trace), len(ends)
    rows = np.concatenate([job_of, jobs + slot_of, jobs + slots + job_of * slots + slot_of])
    values = np.concatenate([-rate_of * long, held.astype(float), np.ones(len(cells))])
    matrix = coo_array((values, (rows, np.tile(one, 3))), shape=(jobs + slots + jobs * slots, len(cells))).tocsr()
    work = np.array([-(job.work.total if job.work else 0.0) for job in trace])
    limits = np.concatenate([work, np.full(slots, float(gpus)), np.ones(jobs * slots)])
    found = linprog(held * long, A_ub=matrix, b_ub=limits, bounds=(0, None), method="highs")
    return float(found.fun) if found.success else math.inf


def bound() -> None:
    print("instance  GPUs  admitted  missed  GPU seconds of joint(slack=0) over the bound")
    for seed, gpus in product(range(5), (192, 128, 96)):
        rng = np.random.default_rng(seed)
        trace = []
        for number in range(40):
            shape = float(rng.uniform(0.5, 0.95))
            rates = {rigid_config(g): g**shape for g in (1, 2, 4, 8, 16)}
            work = float(rng.uniform(500.0, 5000.0))
            limit = work / 16**shape * float(rng.uniform(1.5, 8.0))
            trace.append(Submission(str(number), 0.0, 4, work / 4**shape, limit, Steady(work, rates), rigid_config(4)))
        played = simulate(trace, parse_cluster(str(gpus)), Joint(slack=0.0))
        kept = [job for job, gone in zip(played.jobs, played.declined, strict=True) if not gone]
        missed = metrics(played)["deadlines"]["admitted_missed"]
        over = played.service.sum() / least_gpu_seconds(kept, gpus) - 1
        print(f"{seed:8} {gpus:5} {len(kept):9} {missed:7} {over:10.1%}", flush=True)


PARTS = {part.__name__: part for part in (speed, decisions, crowd, deadlines, uncertain, predicted, targets, bound)}

if __name__ == "__main__":
    for part in sys.argv[1:] or ["speed", "decisions"]:
        PARTS[part]()
