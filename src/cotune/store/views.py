"""What is in a store, for whoever looks at it: counts, pages and what changed, without reading it all.

Every answer is one or two queries; ten thousand samples cost milliseconds, because curves
are read only for the samples that are still growing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Text, and_, case, cast, func, not_, or_, select, true

from cotune.store import rows
from cotune.store.database import REFUSAL, KnownJob, Named, Store, StoredResult
from cotune.store.schema import evaluations, jobs, plans, results, samples
from cotune.types import Cause, Evaluation, Job, Sample

State = Literal["growing", "failed", "interrupted", "ok"]
STATES: tuple[State, ...] = ("growing", "failed", "interrupted", "ok")


@dataclass(frozen=True, slots=True)
class JobSummary(KnownJob):
    """A job of the store, and what was measured of it so far."""

    configs: int
    runs: int
    failed: int
    growing: int
    plans: int
    device_seconds: float
    last_started: str


@dataclass(frozen=True, slots=True)
class Owned:
    """A sample, and the name and fingerprint of the job that it belongs to."""

    name: str
    fingerprint: str
    sample: Sample


def job_summaries(store: Store) -> tuple[JobSummary, ...]:
    """Return every job with its counts, the most recently active first."""
    held = samples.c.seconds * (samples.c.workers + samples.c.servers)
    layout = samples.c.workers.concat("/").concat(samples.c.batch_size).concat("/").concat(samples.c.device)
    counts = select(
        samples.c.job,
        samples.c.fingerprint,
        func.count().label("samples"),
        func.count(func.distinct(layout)).label("configs"),
        func.sum(case((samples.c.purpose == "run", 1), else_=0)).label("runs"),
        func.sum(case((_in("failed"), 1), else_=0)).label("failed"),
        func.sum(case((samples.c.ended, 0), else_=1)).label("growing"),
        func.sum(held).label("device_seconds"),
        func.max(samples.c.started).label("last_started"),
    ).group_by(samples.c.job, samples.c.fingerprint)
    planned = select(plans.c.job, plans.c.fingerprint, func.count().label("plans")).group_by(
        plans.c.job, plans.c.fingerprint
    )
    with store.reading() as connection:
        measured = {(row.job, row.fingerprint): row for row in connection.execute(counts)}
        made = {(row.job, row.fingerprint): row.plans for row in connection.execute(planned)}
        known = connection.execute(select(jobs)).all()
        found = [_summary(row, measured.get((row.name, row.fingerprint)), made) for row in known]
    return tuple(sorted(found, key=lambda job: (job.last_started, job.first_seen), reverse=True))


def _summary(row: Any, counts: Any, made: dict[tuple[str, str], int]) -> JobSummary:
    numbers = ("samples", "configs", "runs", "failed", "growing")
    known = {name: int(getattr(counts, name)) if counts is not None else 0 for name in numbers}
    return JobSummary(
        name=row.name,
        fingerprint=row.fingerprint,
        definition=rows.record(Job, row.definition),
        first_seen=row.first_seen,
        plans=made.get((row.name, row.fingerprint), 0),
        device_seconds=float(counts.device_seconds) if counts is not None else 0.0,
        last_started=counts.last_started if counts is not None else "",
        **known,
    )


def sample_page(
    store: Store,
    *,
    job: tuple[str, str] | None = None,
    purpose: str | None = None,
    state: State | None = None,
    limit: int = 100,
    offset: int = 0,
) -> tuple[int, tuple[Owned, ...]]:
    """Return how many samples there are of a kind, and some of them without their curves, newest first."""
    wanted: ColumnElement[bool] = true()
    if job is not None:
        wanted = and_(wanted, samples.c.job == job[0], samples.c.fingerprint == job[1])
    if purpose is not None:
        wanted = and_(wanted, samples.c.purpose == purpose)
    if state is not None:
        wanted = and_(wanted, _in(state))
    query = select(samples).where(wanted).order_by(samples.c.number.desc()).limit(limit).offset(offset)
    with store.reading() as connection:
        total = connection.scalar(select(func.count()).select_from(samples).where(wanted)) or 0
        return total, tuple(_owned(row, ()) for row in connection.execute(query))


@dataclass(frozen=True, slots=True)
class SampleLimits:
    """Which samples of very many tell the most: the newest of each config, and of each batch those with a curve."""

    per_config: int
    per_batch: int
    curves: int
    most: int


def telling_samples(store: Store, job: Named, asked: SampleLimits) -> tuple[Sample, ...]:
    """Return the samples of a job that tell the most, oldest first, with those that they resumed from."""
    nth_of_config = func.row_number().over(partition_by=cast(samples.c.config, Text), order_by=samples.c.number.desc())
    has_curve = samples.c.accuracy.is_not(None)
    nth_of_batch = func.row_number().over(
        partition_by=(samples.c.global_batch, has_curve), order_by=samples.c.number.desc()
    )
    own = and_(samples.c.job == job.name, samples.c.fingerprint == job.fingerprint)
    ranked = (
        select(
            samples.c.id,
            samples.c.number,
            samples.c.resumed_from,
            nth_of_config.label("of_config"),
            and_(has_curve, nth_of_batch <= asked.per_batch).label("curve"),
            or_(samples.c.purpose == "run", samples.c.cause == Cause.MEMORY.value).label("rare"),
        )
        .where(own)
        .subquery()
    )
    wanted = or_(ranked.c.of_config <= asked.per_config, ranked.c.curve, ranked.c.rare)
    first = case((ranked.c.of_config == 1, 0), (ranked.c.curve, 1), else_=2)  # one of each before three of some
    query = select(ranked.c.id, ranked.c.resumed_from).where(wanted).order_by(first, ranked.c.number.desc())
    with store.reading() as connection:
        chosen = {row.id: row.resumed_from for row in connection.execute(query.limit(asked.most))}
        while before := {name for name in chosen.values() if name and name not in chosen}:
            found = connection.execute(select(samples.c.id, samples.c.resumed_from).where(samples.c.id.in_(before)))
            chosen |= dict.fromkeys(before) | {row.id: row.resumed_from for row in found}
    return store.samples_named(chosen)


def owner(store: Store, sample: str) -> tuple[str, str]:
    """Return the name and the fingerprint of the job that a sample belongs to."""
    with store.reading() as connection:
        row = connection.execute(select(samples.c.job, samples.c.fingerprint).where(samples.c.id == sample)).one()
        return row.job, row.fingerprint


def growing(store: Store) -> tuple[Owned, ...]:
    """Return the samples that have not ended, with their curves, newest first."""
    live = select(samples).where(not_(samples.c.ended)).order_by(samples.c.number.desc())
    points = select(evaluations).where(evaluations.c.sample.in_(select(samples.c.id).where(not_(samples.c.ended))))
    with store.reading() as connection:
        found = connection.execute(live).all()
        curves: dict[str, list[Evaluation]] = {}
        for row in connection.execute(points.order_by(evaluations.c.sample, evaluations.c.place)):
            curve = curves.setdefault(row.sample, [])
            curve.append(rows.evaluation(row.epoch, row.accuracy, row.seconds, row.metrics))
        return tuple(_owned(row, tuple(curves.get(row.id, ()))) for row in found)


def result_list(store: Store) -> tuple[StoredResult, ...]:
    """Return the results of other verbs without their documents, newest first."""
    columns = (results.c.id, results.c.kind, results.c.name, results.c.created)
    with store.reading() as connection:
        shown = select(*columns).where(results.c.kind != REFUSAL)
        found = connection.execute(shown.order_by(results.c.number.desc()))
        return tuple(StoredResult(row.id, row.kind, row.name, row.created, {}) for row in found)


def pulse(store: Store) -> tuple[int, ...]:
    """Return numbers that change whenever something is added or ends."""
    ended = func.coalesce(func.sum(case((samples.c.ended, 1), else_=0)), 0)
    with store.reading() as connection:
        last, done = connection.execute(select(func.coalesce(func.max(samples.c.number), 0), ended)).one()
        others = [
            connection.scalar(select(func.coalesce(func.max(table.c.number), 0))) or 0 for table in (plans, results)
        ]
        return (int(last), int(done), *map(int, others))


def _owned(row: Any, curve: tuple[Evaluation, ...]) -> Owned:
    return Owned(row.job, row.fingerprint, rows.sample(row._asdict(), curve))


def _in(state: State) -> ColumnElement[bool]:
    """Return the condition of a state."""
    cause = samples.c.cause
    conditions: dict[State, ColumnElement[bool]] = {
        "growing": not_(samples.c.ended),
        "failed": and_(cause.is_not(None), cause != Cause.INTERRUPTED.value),
        "interrupted": cause == Cause.INTERRUPTED.value,
        "ok": and_(cause.is_(None), samples.c.ended),
    }
    return conditions[state]
