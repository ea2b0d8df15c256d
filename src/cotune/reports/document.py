"""A report as JSON, with the field names of the other verbs."""

from __future__ import annotations

from typing import Any

from cotune import documents
from cotune.checkpoints import reused_device_seconds
from cotune.project.ended_runs import EndedRun
from cotune.reports.findings import Findings


def document(found: Findings) -> dict[str, Any]:
    """Return everything that a report says, but the learning curves of each sample."""
    scaling = found.scaling
    refusal = found.refusal
    continues = found.plan.continues if found.plan else None
    return {
        "job": found.job.name,
        "goal": documents.goal_document(found.job, found.goal, found.unit),
        "plan": documents.plan_document(found.plan, found.job) if found.plan else None,
        "refusal": None
        if refusal is None
        else {"message": str(refusal)} | refusal.document(map(documents.forecast_document, found.nearest)),
        "rivals": [documents.forecast_document(rival, found.job) for rival in found.plan.rivals] if found.plan else [],
        "frontier": [
            documents.forecast_document(found.assessed.forecast(int(row)), found.job) for row in found.frontier
        ],
        "scaling": None
        if scaling is None
        else {
            "words": scaling.words,
            "pays_up_to": scaling.last_paying.workers,
            "fastest": scaling.fastest.workers,
            "cheapest": scaling.cheapest.workers,
            "steps": [
                documents.forecast_document(found.assessed.forecast(step.row), found.job)
                | {"speed_up": step.speed_up, "efficiency": step.efficiency, "gain": step.gain}
                for step in scaling.steps
            ],
        },
        "configs": len(found.assessed.seconds),
        "runs": [_run(found, run) for run in found.runs],
        "profile": documents.profile_document(found.samples, reused_device_seconds(continues, found.samples)),
        "cost": {"value": found.cost(found.samples), "unit": found.unit},
        "prices": documents.price_document(found.cluster),
        "notes": list(found.notes),
    }


def _run(found: Findings, run: EndedRun) -> dict[str, Any]:
    told = documents.sample_document(run.last, found.job) | {"seconds": run.seconds}
    told["cost"] = {"value": run.cost, "unit": found.unit}
    return {
        "run": told,
        "starts": len(run.starts),
        "forecast": documents.forecast_document(run.plan.forecast, found.job) if run.plan else None,
        "outcome": run.outcome,
        "met": run.missed is None,
        "missed": run.missed,
    }
