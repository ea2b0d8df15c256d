"""What the dashboard says: questions about one store, answered as documents."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from cotune import __version__, progress
from cotune.dashboard.learning import Learner
from cotune.dashboard.what_if import WhatIf, answer, findings, grounds
from cotune.documents import counted_words, goal_words, plan_document, price_words, sample_document
from cotune.errors import NotFound
from cotune.predict.countdown import seconds_left
from cotune.project.ended_runs import ended_run
from cotune.reports.frames import Figure, layout, words
from cotune.store import Store, StoredPlan, views
from cotune.store.views import JobSummary, Owned, State
from cotune.types import Cluster, Job, Plan
from cotune.units import number

_STARTS = 50  # of one run that are followed back
_CURVE = 500  # points of a live curve that are sent


def job_key(name: str, fingerprint: str) -> str:
    """Return a job's name in addresses: safe, and not to be guessed back."""
    return hashlib.sha256(f"{name}\0{fingerprint}".encode()).hexdigest()[:16]


class StoreAnswers:
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
            "jobs": [_job_document(job) | {"outcome": self._outcome(job)} for job in jobs],
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
        return [_live_document(owned, jobs[owned.name, owned.fingerprint], self._followed(owned)) for owned in found]

    def _outcome(self, job: JobSummary) -> str | None:
        """Return how the last run of a job ended: met, missed, failed or done; None while one goes on, or without one.

        A goal with a limit of cost is left to the job's own page, which knows the prices.
        """
        _, page = views.sample_page(self.store, job=(job.name, job.fingerprint), purpose="run", limit=1)
        if not page or not page[0].sample.ended:
            return None
        trail = [self.store.sample(page[0].sample.id)]
        while (before := trail[0].resumed_from) and len(trail) < _STARTS:
            try:
                trail.insert(0, self.store.sample(before))
            except NotFound:
                break
        goal = trail[-1].goal or next((stored.plan.goal for stored in self.store.plans(job, last=1)), None)
        if goal is not None and goal.max_cost is not None:
            return None
        return ended_run(job.definition, Cluster(), trail, None, goal).outcome

    def _followed(self, owned: Owned) -> Plan | None:
        plans = self.store.plans(owned, last=20)
        return next((stored.plan for stored in plans if stored.plan.config == owned.sample.config), None)

    def samples(
        self, key: str | None, purpose: str | None, state: State | None, limit: int, offset: int
    ) -> dict[str, Any]:
        job = self.job(key) if key else None
        whose = (job.name, job.fingerprint) if job else None
        total, page = views.sample_page(self.store, job=whose, purpose=purpose, state=state, limit=limit, offset=offset)
        jobs = {(known.name, known.fingerprint): known.definition for known in views.job_summaries(self.store)}
        rows = [
            {
                "job": one.name,
                "key": job_key(one.name, one.fingerprint),
                **_brief(one, jobs.get((one.name, one.fingerprint))),
            }
            for one in page
        ]
        return {"total": total, "offset": offset, "rows": rows}

    def sample(self, id: str) -> dict[str, Any]:
        """Return a sample by its id, in the words of its job."""
        sample = self.store.sample(id)
        jobs = {(known.name, known.fingerprint): known.definition for known in views.job_summaries(self.store)}
        job = jobs.get(views.owner(self.store, sample.id))
        return sample_document(sample, job) | (counted_words(job, sample) if job else {})

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
        goal = learnt.planner.goal
        found = findings(learnt, WhatIf.of(goal), history=True)
        return told | {
            "question": {
                "goal": answer(found)["goal"],
                "seconds": learnt.seconds_range,
                "accuracy": learnt.accuracy_range,
                "prices": {device.name: device.price_per_hour for device in learnt.planner.cluster.devices},
                "currency": learnt.planner.cluster.currency,
                "priced": price_words(learnt.planner.cluster),
                "configs": len(learnt.planner.space),
                "assumed": learnt.assumed,
            },
            "answer": answer(found),
            "grounds": grounds(found),
        }

    def what_if(self, key: str, asked: WhatIf, prices: Mapping[str, float]) -> dict[str, Any]:
        begun = time.perf_counter()
        learnt = self.learner.latest(key) or self.learner(key, self.job(key))
        told = answer(findings(learnt, asked, prices))
        return told | {"milliseconds": round(1000 * (time.perf_counter() - begun), 2)}

    def result(self, id: str) -> dict[str, Any]:
        stored = self.store.result(id)
        told: dict[str, Any] = {"id": stored.id, "kind": stored.kind, "name": stored.name, "created": stored.created}
        told["document"] = dict(stored.document)
        told["figures"] = {"stages": _stages(stored.document["plan"])}
        return told


def _stages(plan: Mapping[str, Any]) -> Figure:
    """Return the seconds of each stage of a placement for one batch; the slowest sets the pace of all."""
    found = plan["stages"]
    names = [words(f"{place + 1}: {stage['units']} {stage['type']}") for place, stage in enumerate(found)]
    colours = ["@accent" if place == plan["bottleneck"] else "@s1/0.75" for place in range(len(found))]
    bars = {
        "type": "bar", "orientation": "h", "x": [stage["seconds"] for stage in found], "y": names,
        "marker": {"color": colours}, "name": "seconds",
        "customdata": [words(stage["limited_by"] or "") for stage in found],
        "hovertemplate": "%{y}: %{x:.4~g} s per batch, limited by %{customdata}<extra></extra>",
    }  # fmt: skip
    axis = {"type": "category", "autorange": "reversed", "automargin": True, "ticks": ""}
    height = 110 + 34 * len(found)
    return {"data": [bars], "layout": layout("seconds for one batch", "", yaxis=axis, height=height)}


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


def _plan_row(stored: StoredPlan, job: Job) -> dict[str, Any]:
    told = plan_document(stored.plan) | {"words": str(stored.plan.config), "created": stored.created}
    return told | {
        "job": stored.job,
        "key": job_key(stored.job, stored.fingerprint),
        "goal": goal_words(job, stored.plan.goal, stored.plan.forecast.cost.unit),
    }


def _brief(owned: Owned, job: Job | None) -> dict[str, Any]:
    sample = owned.sample
    told = sample_document(sample, job) | {"words": str(sample.config), **(counted_words(job, sample) if job else {})}
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
    document = _brief(owned, definition)
    return document | {
        "job": owned.name,
        "key": job_key(owned.name, owned.fingerprint),
        "metric": definition.metric,
        "cap": None if cap is None else cap / definition.counting.parts,
        "most": None if cap is None else number(progress.amount(definition, sample.config, cap)),
        "target": target,
        "deadline": plan.goal.deadline if plan and sample.purpose == "run" else None,
        "left": left,
        "interval": interval,
        "curve": [
            [progress.amount(definition, sample.config, point.epoch), point.accuracy] for point in sample.curve[::every]
        ],
    }
