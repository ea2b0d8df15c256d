"""The store itself: jobs, samples and plans in, the same records out.

Samples grow: `save` is called again and again with the same id and adds what is new. A
sample whose writer died is closed as interrupted when the store is next opened; the
epochs it had measured stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from sqlalchemy import URL, ColumnElement, Connection, and_, func, select, true, update

from cotune.errors import NotFound, UsageError
from cotune.identity import new_id
from cotune.safety import redact
from cotune.space import Space
from cotune.store import rows, writer
from cotune.store.connection import StoreConnection, append, insert, introduce, of_job, upsert
from cotune.store.location import is_read_only, locate
from cotune.store.rows import ModelStep
from cotune.store.schema import evaluations, jobs, model_steps, plans, results, samples
from cotune.store.spool import OUTAGE, OutagePolicy, SpooledSample
from cotune.types import Cluster, CountedModel, Evaluation, Failure, Goal, Job, Plan, Sample

REFUSAL = "refusal"  # the kind of result that is none to look at
_LOOKED_AT = 20  # refusals: a job is known by a few metrics
_SHOWN = 5
_AT_ONCE = 1000  # rows of curves held at a time


class Named(Protocol):
    """What samples belong to: a `Job`, or a `KnownJob` of the store."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job as the store knows it; its definition has the secrets masked."""

    name: str
    fingerprint: str
    definition: Job
    first_seen: str
    samples: int


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan, when it was made, for which job, and what it was chosen from where that is known."""

    id: str
    job: str
    fingerprint: str
    created: str
    plan: Plan
    space: Space | None = None
    cluster: Cluster | None = None


@dataclass(frozen=True, slots=True)
class StoredRefusal:
    """A goal that was asked of a job and no plan could meet, and when."""

    fingerprint: str
    created: str
    goal: Goal


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What another verb found, kept to be looked at: a simulation, a placement."""

    id: str
    kind: str
    name: str
    created: str
    document: Mapping[str, Any]


def open_store(url: str | None = None, start: Path = Path()) -> Store:
    """Return the store at a path or URL, or the nearest one from `start` upwards, ready to use."""
    return Store(locate(url, start))


class Store(StoreConnection):
    """An open store."""

    def __init__(self, url: URL, outage: OutagePolicy = OUTAGE) -> None:
        self._writer = writer.me()
        self._known: set[tuple[str, str, CountedModel | None]] = set()
        super().__init__(url, outage)
        if not is_read_only(self.url):
            try:
                self.close_orphans()
            except BaseException:
                self.close()
                raise

    @contextmanager
    def _writing_of(self, job: Job) -> Iterator[Connection]:
        """Yield a connection to write what belongs to a job; the definition of a new one is kept, secrets masked."""
        with self.writing() as connection:
            if _definition(job) not in self._known:
                introduce(connection, _job_row(job))
            yield connection
        self._known.add(_definition(job))  # only now is it committed

    def jobs(self) -> tuple[KnownJob, ...]:
        """Return every job there is, first seen first."""
        count = select(func.count()).where(of_job(samples, jobs.c.name, jobs.c.fingerprint)).scalar_subquery()
        query = select(jobs, count.label("samples")).order_by(jobs.c.first_seen, jobs.c.fingerprint)
        return self.ask(
            lambda connection: tuple(
                KnownJob(row.name, row.fingerprint, rows.record(Job, row.definition), row.first_seen, row.samples)
                for row in connection.execute(query).all()
            )
        )

    def save(self, job: Job, sample: Sample) -> None:
        """Write a sample as it is now; its curve only ever grows, so only new evaluations are added."""
        if not sample.id:
            raise ValueError("a sample needs an id to be saved")
        row = {**rows.of_sample(sample), "job": job.name, "fingerprint": job.fingerprint, "writer": self._writer}

        def write() -> None:
            with self._writing_of(job) as connection:
                upsert(connection, row)
                append(connection, sample.id, sample.curve, rows.of_evaluation)

        def entry() -> SpooledSample:
            points = (rows.of_evaluation(point, sample.id, place) for place, point in enumerate(sample.curve))
            return SpooledSample(_job_row(job), row, tuple(points))

        if self.spool is None:
            write()
        else:
            self.spool.save(write, entry, self.put)

    def samples(self, job: Named | None = None, purpose: Literal["probe", "run"] | None = None) -> tuple[Sample, ...]:
        """Return the samples of a job with this very fingerprint (of all jobs by default), oldest first."""
        wanted = true() if job is None else of_job(samples, job.name, job.fingerprint)
        return self._samples(wanted if purpose is None else and_(wanted, samples.c.purpose == purpose))

    def samples_named(self, ids: Collection[str]) -> tuple[Sample, ...]:
        """Return the samples with these ids that there are, oldest first."""
        return self._samples(samples.c.id.in_(ids))

    def alike(self, job: Job) -> tuple[tuple[Job, tuple[Sample, ...]], ...]:
        """Return the other jobs of the same program or model, their secrets masked, with their samples."""
        program = redact.command(job.command)[:2]
        found = (known for known in self.jobs() if known.fingerprint != job.fingerprint and known.samples)
        return tuple(
            (known.definition, self.samples(known))
            for known in found
            if known.definition.command[:2] == program or known.definition.same_model(job)
        )

    def counted_model(self, job: Named) -> CountedModel | None:
        """Return what was counted of a job's model before, if it was."""
        same = (known for known in self.jobs() if (known.name, known.fingerprint) == (job.name, job.fingerprint))
        return next((known.definition.model for known in same), None)

    def others(self, job: Named) -> int:
        """Return how many samples bear the job's name but another command, data, metric or rate."""
        other = and_(samples.c.job == job.name, samples.c.fingerprint != job.fingerprint)
        return self.ask(lambda connection: connection.scalar(select(func.count()).where(other)) or 0)

    def sample(self, prefix: str) -> Sample:
        """Return the sample whose id starts so."""
        if not prefix:
            raise UsageError("a sample is named by its id, or by enough of its first letters")
        found = self._samples(func.substr(samples.c.id, 1, len(prefix)) == prefix)
        exact = [sample for sample in found if sample.id == prefix]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if not found:
            raise NotFound(f"no sample whose id starts with {prefix!r} in {self.label}")
        ids = ", ".join(sample.id for sample in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        raise UsageError(f"{len(found)} samples start with {prefix!r}: {ids}; give more letters")

    def unfinished_runs(self, job: Named) -> tuple[Sample, ...]:
        """Return the runs that failed or were interrupted and not taken up again since, newest first."""
        resumed = select(samples.c.resumed_from).where(samples.c.resumed_from.is_not(None))
        stopped = and_(samples.c.purpose == "run", samples.c.ended, samples.c.failure.is_not(None))
        wanted = and_(of_job(samples, job.name, job.fingerprint), stopped, samples.c.id.not_in(resumed))
        return self._samples(wanted)[::-1]

    def _samples(self, wanted: ColumnElement[bool]) -> tuple[Sample, ...]:
        points = evaluations.c
        curve = (
            select(points.sample, points.epoch, points.accuracy, points.seconds, points.metrics)
            .where(points.sample.in_(select(samples.c.id).where(wanted)))
            .order_by(points.sample, points.place)
        )

        def read(connection: Connection) -> tuple[Sample, ...]:
            found = connection.execute(select(samples).where(wanted).order_by(samples.c.number)).all()
            curves: dict[str, list[Evaluation]] = {}
            for sample, *columns in connection.execute(curve, execution_options={"yield_per": _AT_ONCE}):
                curves.setdefault(sample, []).append(rows.evaluation(*columns))
            return tuple(rows.sample(row._asdict(), tuple(curves.get(row.id, ()))) for row in found)

        return self.ask(read)

    def close_orphans(self) -> tuple[str, ...]:
        """End, as interrupted, the samples whose writer is known to be dead; return their ids."""
        growing = select(samples.c.id, samples.c.writer).where(~samples.c.ended, samples.c.writer.is_not(None))
        with self.reading() as connection:
            orphans = tuple(id for id, who in connection.execute(growing) if writer.gone(who))
        if orphans:
            gone = Failure.interrupted("cotune was gone before it ended")
            close = (
                update(samples)
                .where(samples.c.id.in_(orphans))
                .values(
                    ended=True,
                    failure=func.coalesce(samples.c.failure, gone.words),
                    cause=func.coalesce(samples.c.cause, gone.cause.value),
                )
            )
            with self.writing() as connection:
                connection.execute(close)
        return orphans

    def save_plan(self, job: Job, plan: Plan, space: Space | None = None, cluster: Cluster | None = None) -> str:
        """Keep a plan, and what it was chosen from; return its id."""
        id = new_id()
        row = {
            "id": id,
            "job": job.name,
            "fingerprint": job.fingerprint,
            "created": _now(),
            "goal": rows.of_record(plan.goal),
            "plan": rows.of_record(plan),
            "space": None if space is None else rows.of_record(space),
            "cluster": None if cluster is None else rows.of_record(cluster),
        }

        def write(connection: Connection) -> None:
            introduce(connection, _job_row(job))
            connection.execute(insert(connection, plans).on_conflict_do_nothing(), row)

        self.transact(write)
        return id

    def plans(self, job: Named | None = None, last: int | None = None) -> tuple[StoredPlan, ...]:
        """Return the plans of a job (of all jobs by default), newest first, at most `last` of them."""
        wanted = true() if job is None else of_job(plans, job.name, job.fingerprint)
        query = select(plans).where(wanted).order_by(plans.c.number.desc()).limit(last)
        return self.ask(lambda connection: tuple(_plan(row) for row in connection.execute(query).all()))

    def latest_plan(self, job: Named) -> Plan | None:
        """Return the plan made last for a job, or None when there is none."""
        newest = self.plans(job, last=1)
        return newest[0].plan if newest else None

    def plan_of_id(self, id: str) -> StoredPlan:
        """Return the plan with an id."""
        row = self.ask(lambda connection: connection.execute(select(plans).where(plans.c.id == id)).one_or_none())
        if row is None:
            raise NotFound(f"no plan {id!r} in {self.label}")
        return _plan(row)

    def save_refusal(self, job: Job, goal: Goal) -> None:
        """Keep that a goal was asked of a job and refused, so that no run follows what was asked before."""
        document = {"fingerprint": job.fingerprint, "goal": rows.of_record(goal)}
        self.save_result(REFUSAL, job.name, document)

    def refusal(self, job: str, fingerprints: Collection[str]) -> StoredRefusal | None:
        """Return what was asked last of a job, by some fingerprints, where that was refused and nothing came of it."""
        wanted = (results.c.kind == REFUSAL) & (results.c.name == job)
        query = select(results).where(wanted).order_by(results.c.number.desc()).limit(_LOOKED_AT)
        found = self.ask(lambda connection: connection.execute(query).all())
        refused = next((row for row in found if row.document["fingerprint"] in fingerprints), None)
        if refused is None:
            return None
        mine = (plans.c.job == job) & plans.c.fingerprint.in_(fingerprints)
        later = select(func.count()).select_from(plans).where(mine & (plans.c.created > refused.created))
        if self.ask(lambda connection: connection.scalar(later)):
            return None
        goal = rows.record(Goal, refused.document["goal"])
        return StoredRefusal(refused.document["fingerprint"], refused.created, goal)

    def save_model_step(self, step: ModelStep) -> None:
        """Keep a measured step of a model."""
        with self.writing() as connection:
            connection.execute(model_steps.insert(), asdict(step))

    def steps_of_models(self, device: str, precision: str) -> tuple[ModelStep, ...]:
        """Return the measured steps of models on a device in a precision, oldest first."""
        there = and_(model_steps.c.device == device, model_steps.c.precision == precision)
        query = select(model_steps).where(there).order_by(model_steps.c.number)
        return self.ask(
            lambda connection: tuple(rows.record(ModelStep, row._asdict()) for row in connection.execute(query))
        )

    def save_result(self, kind: str, name: str, document: Mapping[str, Any]) -> str:
        """Keep what another verb found, as plain JSON; return its id."""
        id = new_id()
        row = {"id": id, "kind": kind, "name": name, "created": _now(), "document": rows.plain(document)}
        self.transact(lambda connection: connection.execute(insert(connection, results).on_conflict_do_nothing(), row))
        return id

    def result(self, id: str) -> StoredResult:
        """Return a result by its id."""
        wanted = select(results).where(results.c.id == id)
        row = self.ask(lambda connection: connection.execute(wanted).one_or_none())
        if row is None:
            raise NotFound(f"no result {id!r} in {self.label}")
        return StoredResult(row.id, row.kind, row.name, row.created, row.document)


def _plan(row: Any) -> StoredPlan:
    space = None if row.space is None else rows.record(Space, row.space)
    cluster = None if row.cluster is None else rows.record(Cluster, row.cluster)
    return StoredPlan(row.id, row.job, row.fingerprint, row.created, rows.record(Plan, row.plan), space, cluster)


def _job_row(job: Job) -> dict[str, Any]:
    definition = rows.of_record(redact.job(job))
    return {"name": job.name, "fingerprint": job.fingerprint, "definition": definition, "first_seen": _now()}


def _definition(job: Job) -> tuple[str, str, CountedModel | None]:
    """Return what of a job's definition may be new to a store."""
    return job.name, job.fingerprint, job.model


def _now() -> str:
    return datetime.now(UTC).isoformat()
