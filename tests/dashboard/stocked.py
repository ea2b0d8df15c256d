"""Stores with something to look at: real forecasts, plans and placements of a made-up world."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from cotune.placement.answers import PlacementGoal, answer
from cotune.placement.profiles import Profile
from cotune.placement.testing import ctr
from cotune.plan.choose import choose
from cotune.plan.searches.grid import Grid
from cotune.predict.learn import forecaster
from cotune.space import Axis, Space
from cotune.store import Store, rows
from cotune.store.schema import evaluations, samples
from cotune.types import Cause, Cluster, Config, Device, Evaluation, Failure, Goal, Job, Sample, Terms
from lab.worlds import EXAMPLES, accuracy_at, step_seconds

HOSTILE = '<script>window.hacked=1</script><b>"evil" & name</b>'
SECRET = "sk-swordfish-12345"
SPACE = Space(
    (Axis("workers", tuple(range(1, 17))), Axis("batch_size", (16, 32, 64, 128, 256)), Axis("device", ("t4",)))
)
CLUSTER = Cluster((Device("t4", 16, 0.35, 4),))
GOAL = Goal(target=0.85, deadline=150.0, max_epochs=40)
JOB = Job(
    "resnet-cifar",
    ("python", "train.py", "--batch-size", "{batch_size}", "--token", SECRET),
    EXAMPLES,
    env=(("API_KEY", SECRET), ("DEPTH", "18")),
    where="local on a test",
)


def sample(rng: np.random.Generator, config: Config, epochs: int, id: str, **changes: object) -> Sample:
    """Return a start in a world of known laws."""
    pace = step_seconds(config.workers, config.batch_size) * EXAMPLES / config.global_batch
    pace *= float(np.exp(0.02 * rng.normal()))
    curve = tuple(
        Evaluation(float(e), accuracy_at(config.global_batch, e) + 0.002 * float(rng.normal()), 2.0 + pace * e)
        for e in range(1, epochs + 1)
    )
    whole = Sample(
        config,
        float(epochs or 0.2),
        pace,
        curve[-1].accuracy if curve else None,
        Terms(startup=2.0, evaluation=0.3),
        curve,
        2.0 + pace * (epochs or 0.2),
        id=id,
        started=_ago(minutes=60),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def _ago(minutes: float = 0, seconds: float = 0) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes, seconds=seconds)).isoformat(timespec="seconds")


def stock(store: Store, job: Job = JOB) -> Config:
    """Put a measured, planned and run job into a store; return the plan's config."""
    rng = np.random.default_rng(7)
    layouts = [(1, 64), (2, 32), (4, 64), (8, 32), (16, 128), (1, 256), (4, 16), (16, 16)]
    probes = [
        sample(rng, Config.data_parallel(b, w, "t4"), 12 if place < 4 else 0, f"probe{place}", started=_ago(90 - place))
        for place, (w, b) in enumerate(layouts)
    ]
    full = Failure("out of memory: CUDA tried to allocate 9 GiB", Cause.MEMORY)
    probes.append(replace(probes[0], id="oom", config=Config.data_parallel(512, 1, "t4"), curve=(), epoch_seconds=None,
                          accuracy=None, failure=full))  # fmt: skip
    for probe in probes:
        store.save(job, probe)
    forecast = forecaster(job, probes, CLUSTER)
    plan = choose(job, GOAL, SPACE, CLUSTER, forecast=forecast, search=Grid())
    store.save_plan(job, plan, SPACE, CLUSTER)
    ended = sample(rng, plan.config, 10, "run-ended", purpose="run", started=_ago(seconds=-1))
    store.save(job, ended)
    return plan.config


def begin(store: Store, config: Config, epochs: int, job: Job = JOB) -> None:
    """Let a run grow to so many epochs."""
    rng = np.random.default_rng(3)
    growing = sample(rng, config, epochs, "run-live", purpose="run", ended=False, started=_ago(seconds=30))
    store.save(job, growing if epochs else replace(growing, epoch_seconds=None, epochs=0.0, seconds=0.5))


def bulk(store: Store, count: int, job: Job = JOB, curves: int = 10) -> None:
    """Put very many samples of a job into a store at once."""
    rng = np.random.default_rng(5)
    made = [
        sample(rng, Config.data_parallel(int(2 ** rng.integers(4, 9)), int(rng.integers(1, 17)), "t4"),
               curves if n % 10 == 0 else 0, f"bulk{n:06d}", purpose="run" if n % 50 == 0 else "probe")
        for n in range(count)
    ]  # fmt: skip
    owner = {"job": job.name, "fingerprint": job.fingerprint}
    with store._writing_of(job) as connection:
        connection.execute(samples.insert(), [{**rows.of_sample(one), **owner} for one in made])
        points = [rows.of_evaluation(point, one.id, at) for one in made for at, point in enumerate(one.curve)]
        connection.execute(evaluations.insert(), points)


def placed(store: Store) -> str:
    """Keep a placement; return its id."""
    from cotune.placement.verbs._place_result import SearchedPlan, answer_document

    profile = Profile.model_validate(ctr(random.Random(2), 8, 3))
    asked = PlacementGoal(throughput=20_000)
    best = answer(profile, asked)
    document = answer_document(profile, asked, best, {"exact": SearchedPlan(best.plan, best.seconds)}, None)
    return store.save_result("place", "ctr.json", document | {"layers": [layer.name for layer in profile.layers]})
