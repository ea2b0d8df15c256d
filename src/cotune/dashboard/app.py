"""The dashboard's server: small JSON answers from a store, its page, and what changes as events.

Answers are computed in threads, so a slow one does not hold up the others. The store is
looked at once a second while somebody watches, and never otherwise.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from pydantic_core import to_json

from cotune import __version__
from cotune.dashboard import pictures
from cotune.dashboard.access import Guard
from cotune.dashboard.learning import Learner
from cotune.dashboard.what_if import Asked, answer, findings, grounds
from cotune.documents import goal_words, plan_document, price_words, sample_document
from cotune.errors import CotuneError, NotFound, UsageError
from cotune.predict.eta import seconds_left
from cotune.reports.page import asset, plotly_script
from cotune.store import Store, StoredPlan, views
from cotune.store.views import JobSummary, Owned
from cotune.types import Plan, Prefer

BEAT_SECONDS = 1.0
_PING_SECONDS = 15.0
_SHARED = ("base.css", "figures.js")
_KINDS = {"css": "text/css", "js": "text/javascript", "html": "text/html", "svg": "image/svg+xml"}
_CURVE = 500  # points of a live curve that are sent


def job_key(name: str, fingerprint: str) -> str:
    """Return a job's name in addresses: safe, and not to be guessed back."""
    return hashlib.sha256(f"{name}\0{fingerprint}".encode()).hexdigest()[:16]


@cache
def page_file(name: str) -> bytes | None:
    """Return a file of the page, or None."""
    if name == "plotly.js":
        return plotly_script().encode()
    if name in _SHARED:
        return asset(name).encode()
    folder = resources.files("cotune.dashboard").joinpath("assets")
    found = [entry for entry in folder.iterdir() if entry.name == name]
    return found[0].read_bytes() if found else None


class Desk:
    """Answers questions about one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.learner = Learner(store)

    def job(self, key: str) -> JobSummary:
        """Return a job by its key."""
        for known in views.job_summaries(self.store):
            if job_key(known.name, known.fingerprint) == key:
                return known
        raise NotFound("no such job in this store")

    def overview(self) -> dict[str, Any]:
        jobs = views.job_summaries(self.store)
        plans = self.store.plans(last=12)
        metrics = {(job.name, job.fingerprint): job.definition for job in jobs}
        return {
            "store": self.store.label,
            "version": __version__,
            "jobs": [_job_document(job) for job in jobs],
            "live": self.live(),
            "plans": [_plan_row(plan, metrics[plan.job, plan.fingerprint]) for plan in plans],
            "results": [
                {"id": found.id, "kind": found.kind, "name": found.name, "created": found.created}
                for found in views.result_list(self.store)
            ],
        }

    def live(self) -> list[dict[str, Any]]:
        """Return the runs and probes that are going on, with their ETA."""
        found = views.growing(self.store)
        jobs = {(job.name, job.fingerprint): job for job in views.job_summaries(self.store)} if found else {}
        return [_live_document(owned, jobs[owned.job, owned.fingerprint], self._followed(owned)) for owned in found]

    def _followed(self, owned: Owned) -> Plan | None:
        plans = self.store.plans(owned.owner, last=20)
        return next((stored.plan for stored in plans if stored.plan.config == owned.sample.config), None)

    def samples(self, key: str | None, purpose: str | None, state: Any, limit: int, offset: int) -> dict[str, Any]:
        job = self.job(key) if key else None
        whose = (job.name, job.fingerprint) if job else None
        total, page = views.sample_page(self.store, job=whose, purpose=purpose, state=state, limit=limit, offset=offset)
        rows = [{"job": one.job, "key": job_key(one.job, one.fingerprint), **_brief(one)} for one in page]
        return {"total": total, "offset": offset, "rows": rows}

    def opened(self, key: str) -> dict[str, Any]:
        """Return what a job's page begins with: what can be asked, and the grounds of the answers."""
        job = self.job(key)
        plans = self.store.plans(job, last=20)
        told = _job_document(job) | {
            "command": list(job.definition.command),
            "folder": job.definition.folder,
            "where": job.definition.where,
            "plans": [_plan_row(plan, job.definition) for plan in plans],
        }
        try:
            learnt = self.learner(key, job)
        except NotFound as error:
            return told | {"question": None, "why_not": str(error)}
        goal = learnt.goal
        last = Asked(goal.target, goal.deadline, goal.max_cost, goal.confidence, goal.prefer)
        found = findings(learnt, last, history=True)
        return told | {
            "question": {
                "goal": answer(found)["goal"],
                "seconds": learnt.seconds_range,
                "accuracy": learnt.accuracy_range,
                "prices": {device.name: device.price_per_hour for device in learnt.cluster.devices},
                "currency": learnt.cluster.currency,
                "priced": price_words(learnt.cluster),
                "configs": len(learnt.space),
                "assumed": learnt.assumed,
            },
            "answer": answer(found),
            "grounds": grounds(found),
        }

    def what_if(self, key: str, asked: Asked) -> dict[str, Any]:
        begun = time.perf_counter()
        learnt = self.learner.latest(key) or self.learner(key, self.job(key))
        told = answer(findings(learnt, asked))
        return told | {"milliseconds": round(1000 * (time.perf_counter() - begun), 2)}

    def result(self, id: str) -> dict[str, Any]:
        kept = self.store.result(id)
        told: dict[str, Any] = {"id": kept.id, "kind": kept.kind, "name": kept.name, "created": kept.created}
        told["document"] = dict(kept.document)
        if kept.kind == "simulate":
            policies = kept.document["policies"]
            told["figures"] = {
                "completion": pictures.distribution(policies, "completion", "from submission to end"),
                "waiting": pictures.distribution(policies, "waiting", "waiting"),
                "use": pictures.use(policies),
                "gantt": {name: pictures.gantt(found["jobs"]) for name, found in policies.items()},
            }
        if kept.kind == "place":
            told["figures"] = {"stages": pictures.stages(kept.document["plan"])}
        return told


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The app to serve, and what to call before its server ends."""

    app: Guard
    close: Callable[[], None]


def create(store: Store, token: str | None = None, *, local: bool = True) -> Dashboard:
    """Return the dashboard of a store, guarded."""
    desk = Desk(store)
    beats = _Beats(desk)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        beating = asyncio.create_task(beats.run())
        yield
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating

    app = FastAPI(
        title="cotune", version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    _routes(app, desk, beats)
    return Dashboard(Guard(app, token, local), beats.close)


def _routes(app: FastAPI, desk: Desk, beats: _Beats) -> None:
    @app.exception_handler(CotuneError)
    async def told(_: Request, error: CotuneError) -> Response:
        status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 500
        return JSONResponse({"error": str(error)}, status_code=status)

    @app.get("/")
    def index() -> Response:
        return _file("index.html")

    @app.get("/assets/{name}")
    def assets(name: str) -> Response:
        return _file(name)

    @app.get("/api/overview")
    def overview() -> Response:
        return _answer(desk.overview())

    @app.get("/api/samples")
    def samples(
        job: str | None = None,
        purpose: Annotated[str | None, Query(pattern="^(probe|run)$")] = None,
        state: Annotated[str | None, Query(pattern="^(growing|failed|interrupted|ok)$")] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        offset: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:
        return _answer(desk.samples(job, purpose, state, limit, offset))

    @app.get("/api/samples/{id}")
    def sample(id: str) -> Response:
        return _answer(sample_document(desk.store.sample(id)))

    @app.get("/api/jobs/{key}")
    def job(key: str) -> Response:
        return _answer(desk.opened(key))

    @app.get("/api/jobs/{key}/what-if")
    def what_if(key: str, asked: Annotated[_Question, Query()], request: Request) -> Response:
        prices = {
            name.removeprefix("price."): float(value)
            for name, value in request.query_params.items()
            if name.startswith("price.") and _is_price(value)
        }
        return _answer(desk.what_if(key, Asked(**dict(asked), prices=prices)))

    @app.get("/api/results/{id}")
    def result(id: str) -> Response:
        return _answer(desk.result(id))

    @app.get("/api/events")
    async def events() -> Response:
        return StreamingResponse(beats.stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})


class _Question(BaseModel):
    """What the sliders ask, as it comes over the line."""

    target: float | None = Field(default=None, allow_inf_nan=False)
    deadline: float | None = Field(default=None, gt=0)
    max_cost: float | None = Field(default=None, gt=0)
    confidence: float = Field(default=0.9, gt=0, lt=1)
    prefer: Prefer = "cheap"
    unpriced: bool = False


class _Beats:
    """Looks at the store once a second while somebody watches, and tells what changed."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.number = 0
        self.event = ""
        self.closed = False
        self._watchers: set[asyncio.Event] = set()
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            text = await asyncio.to_thread(self._look)
            if text != self.event:
                self.number, self.event = self.number + 1, text
                self._wake()
            await asyncio.sleep(BEAT_SECONDS)

    def close(self) -> None:
        """Let everybody go who watches, so that the server can end."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        for watcher in self._watchers:
            watcher.set()

    def _look(self) -> str:
        try:
            beat = [*views.pulse(self.desk.store), self.desk.learner.revision]
            told: dict[str, Any] = {"pulse": beat, "live": self.desk.live()}
        except CotuneError as error:
            told = {"error": str(error)}
        return _json(told).decode()

    async def stream(self) -> AsyncIterator[str]:
        """Yield server-sent events: the state at once, then every change."""
        seen, woken = 0, asyncio.Event()
        self._watchers.add(woken)
        self._wanted.set()
        try:
            while not self.closed:
                if self.number == seen:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(woken.wait(), _PING_SECONDS)
                    woken.clear()
                if self.number == seen:
                    yield ": still here\n\n"
                    continue
                seen = self.number
                yield f"event: beat\ndata: {self.event}\n\n"
        finally:
            self._watchers.discard(woken)
            if not self._watchers:
                self._wanted.clear()


def _json(document: dict[str, Any]) -> bytes:
    """Return JSON in which a number that is none is null."""
    return to_json(document, inf_nan_mode="null")


def _answer(document: dict[str, Any]) -> Response:
    return Response(_json(document), media_type="application/json", headers={"cache-control": "no-store"})


def _file(name: str) -> Response:
    content = page_file(name)
    if content is None:
        return JSONResponse({"error": "no such file"}, status_code=404)
    kind = _KINDS[name.rpartition(".")[2]]
    keep = "max-age=86400" if name == "plotly.js" else "no-cache"
    return Response(content, media_type=kind, headers={"cache-control": keep})


def _is_price(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


def _job_document(job: JobSummary) -> dict[str, Any]:
    return {
        "key": job_key(job.name, job.fingerprint),
        "name": job.name,
        "metric": job.definition.metric,
        "first_seen": job.first_seen,
        "last_started": job.last_started,
        "samples": job.samples,
        "configs": job.configs,
        "runs": job.runs,
        "failed": job.failed,
        "live": job.growing,
        "planned": job.plans,
        "device_seconds": job.device_seconds,
    }


def _plan_row(stored: StoredPlan, job: Any) -> dict[str, Any]:
    told = plan_document(stored.plan) | {"words": str(stored.plan.config), "created": stored.created}
    return told | {
        "job": stored.job,
        "key": job_key(stored.job, stored.fingerprint),
        "goal": goal_words(job, stored.plan.goal, stored.plan.forecast.cost.unit),
    }


def _brief(owned: Owned) -> dict[str, Any]:
    sample = owned.sample
    told = sample_document(sample) | {"words": str(sample.config)}
    del told["curve"]
    return told


def _live_document(owned: Owned, job: JobSummary, plan: Plan | None) -> dict[str, Any]:
    sample, definition = owned.sample, job.definition
    left = interval = cap = None
    target = plan.goal.target if plan and sample.purpose == "run" else None
    if plan is not None and sample.purpose == "run":
        cap = plan.goal.epochs or plan.epochs
        stop_at = None if plan.goal.prefer == "accurate" else target
        told = seconds_left(definition, sample, epochs=cap, target=stop_at, plan=plan)
        left = None if told is None else told.mid
        interval = (told.low, told.high) if told is not None and told.mid > 0 else None
    every = max(len(sample.curve) // _CURVE, 1)
    return _brief(owned) | {
        "job": owned.job,
        "key": job_key(owned.job, owned.fingerprint),
        "metric": definition.metric,
        "cap": cap,
        "target": target,
        "deadline": plan.goal.deadline if plan and sample.purpose == "run" else None,
        "left": left,
        "interval": interval,
        "curve": [[point.epoch, point.accuracy] for point in sample.curve[::every]],
    }
