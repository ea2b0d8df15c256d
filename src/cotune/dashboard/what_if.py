"""What if the deadline, the target or a price were another? A new plan from a known outlook.

Nothing is fitted here: every config is judged anew from draws that exist, which takes
milliseconds, and the figures are those of the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

from pydantic import BaseModel, Field

from cotune import progress
from cotune.dashboard.learning import Learnt
from cotune.documents import decision_table, goal_document, plan_document, quantity_document
from cotune.reports import Findings, figures, find
from cotune.types import Cluster, Forecast, Goal, Job, Plan, Prefer


class WhatIf(BaseModel):
    """What a person wonders about, as the sliders ask it; None leaves out a limit."""

    target: float | None = Field(default=None, allow_inf_nan=False)
    deadline: float | None = Field(default=None, gt=0)
    max_cost: float | None = Field(default=None, gt=0)
    confidence: float = Field(default=0.9, gt=0, lt=1)
    prefer: Prefer = "cheap"
    unpriced: bool = False

    @classmethod
    def of(cls, goal: Goal) -> Self:
        """Return the question whose answer is the plan for a goal."""
        return cls(**{name: getattr(goal, name) for name in cls.model_fields if name != "unpriced"})

    def goal(self, known: Goal) -> Goal:
        """Return the goal; the most epochs stay as they were."""
        return replace(known, **self.model_dump(exclude={"unpriced"}))

    def cluster(self, known: Cluster, prices: Mapping[str, float]) -> Cluster:
        """Return the cluster at some prices; a device without one costs nothing beside one that has."""
        if self.unpriced:
            return replace(known, devices=tuple(replace(device, price_per_hour=None) for device in known.devices))
        if not prices:
            return known
        devices = tuple(
            replace(device, price_per_hour=prices.get(device.name, device.price_per_hour or 0.0))
            for device in known.devices
        )
        return replace(known, devices=devices)


def findings(
    learnt: Learnt, asked: WhatIf, prices: Mapping[str, float] = MappingProxyType({}), *, history: bool = False
) -> Findings:
    """Return the findings of a job under another goal and other prices, with what was measured if asked."""
    planner = learnt.planner.asking(asked.goal(learnt.planner.goal), asked.cluster(learnt.planner.cluster, prices))
    plans = [(stored.created, stored.plan) for stored in learnt.plans] if history else []
    return find(planner, learnt.samples if history else (), plans)


def answer(found: Findings) -> dict[str, Any]:
    """Return the answer as the page shows it."""
    plan, refusal = found.plan, found.refusal
    shown = [plan.forecast, *plan.rivals] if plan else found.nearest
    return {
        "goal": goal_document(found.job, found.goal, found.unit),
        "unit": found.unit,
        "plan": None if plan is None else _planned(plan, found.job),
        "refusal": None if refusal is None else {"message": str(refusal), "constraint": refusal.constraint},
        "table": _table(found.job, shown, planned=plan is not None) if shown else None,
        "figure": figures.cost_time(found),
        "scaling": found.scaling.words if found.scaling else "",
    }


def _planned(plan: Plan, job: Job) -> dict[str, Any]:
    most = progress.words(job, plan.config, plan.epochs)
    return plan_document(plan, job) | {"words": str(plan.config), "most": most}


def _table(job: Job, forecasts: list[Forecast], *, planned: bool) -> dict[str, Any]:
    head, rows = decision_table(job, forecasts[0], forecasts[1:])
    cells = [[str(cell) for cell in row[1:]] for row in rows]
    return {"head": list(head[1:]), "rows": cells, "marked": 0 if planned else None}


def grounds(found: Findings) -> dict[str, Any]:
    """Return what the forecasts rest on: figures of times, curves and scaling, and remarks."""
    return {
        "epoch_times": figures.epoch_times(found),
        "each": progress.each(found.job),
        "curves": figures.learning_curves(found),
        "scaling": figures.scaling_figure(found),
        "cost": figures.cost_over_workers(found),
        "words": found.scaling.words if found.scaling else "",
        "notes": list(found.notes),
        "outcomes": [
            {
                "config": str(run.last.config),
                "started": run.starts[0].started,
                "seconds": run.seconds,
                "forecast": quantity_document(run.plan.forecast.seconds) if run.plan else None,
                "accuracy": run.last.accuracy,
                "missed": run.missed,
                "words": run.words,
            }
            for run in found.runs[:10]
        ],
    }
