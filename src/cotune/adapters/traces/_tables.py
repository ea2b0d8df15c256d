"""Traces that say all about a job in one row: the plain format (with ITP and Philly), and Tiresias's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cotune.adapters.traces._lines import Line, Make, count, duration, seconds
from cotune.errors import suggestion
from cotune.schedule import Submission
from cotune.schedule._work import Steady


@dataclass(frozen=True)
class Table:
    """Column names of a format: what is needed, what may be there, and what is only there to choose by."""

    name: str
    needs: Mapping[str, str]  # what it is -> its column
    may: Mapping[str, str] = field(default_factory=dict)
    others: frozenset[str] = frozenset()

    def knows(self, header: Sequence[str]) -> bool:
        return set(self.needs.values()) <= set(header)

    def missing(self, header: Sequence[str]) -> list[str]:
        return [column for column in self.needs.values() if column not in header]

    def header_problems(self, header: Sequence[str]) -> list[str]:
        known = {*self.needs.values(), *self.may.values(), *self.others}
        unknown = [column for column in header if column not in known]
        double = sorted({column for column in header if list(header).count(column) > 1})
        return [
            *(f"no column {column!r}" for column in self.missing(header)),
            *(f"unknown column {column!r}{suggestion(column, known)}" for column in unknown),
            *(f"column {column!r} is there twice" for column in double),
        ]

    def open(self, header: Sequence[str], path: Path) -> Make:  # noqa: ARG002
        place = {what: header.index(column) for what, column in self.needs.items()}
        may = {what: header.index(column) for what, column in self.may.items() if column in header}
        name, submit, gpus, run = (place[what] for what in ("name", "submit", "gpus", "seconds"))

        def make(line: Line) -> Submission:
            fields = line.columns
            if not fields[name]:
                raise ValueError("job_id is missing")
            given = {what: fields[at] for what, at in may.items() if fields[at]}
            job = Submission(
                fields[name],
                seconds(fields[submit], header[submit]),
                count(fields[gpus], header[gpus]),
                duration(fields[run], header[run]),
                deadline=seconds(given["deadline"], "deadline_s") if "deadline" in given else None,
                device=given.get("device"),
                team=given.get("team", ""),
                priority=int(given.get("priority", 0)),
                weight=_weight(given.get("weight", "1")),
                batch_size=count(given.get("batch_size", "1"), "batch_size"),
                model=given.get("model", ""),
                skewed=given.get("skewed", "0") in ("1", "true", "True"),
                row=line.number,
            )
            return job if "rack_slowdown" not in given else _slower(job, given["rack_slowdown"])

        return make


def _slower(job: Submission, text: str) -> Submission:
    """Return a job that takes so many times as long when its nodes stand in several racks."""
    value = float(text)
    if not 1 <= value < float("inf"):
        raise ValueError(f"rack_slowdown is {text}; it is 1 or more, times the run time within a rack")
    return replace(job, work=Steady(job.seconds, {job.config: 1.0}, value), wants=job.config)


def _weight(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise ValueError(f"weight is {text}; it must be positive")
    return value


PLAIN = Table(
    "plain",
    {"name": "job_id", "submit": "submit_s", "gpus": "gpus", "seconds": "duration_s"},
    {
        "deadline": "deadline_s",
        "device": "device",
        "team": "team",
        "priority": "priority",
        "weight": "weight",
        "batch_size": "batch_size",
        "model": "model",
        "skewed": "skewed",
        "rack_slowdown": "rack_slowdown",
    },
    frozenset({"cluster", "vc", "iterations", "user", "status"}),
)
TIRESIAS = Table(
    "tiresias",
    {"name": "job_id", "submit": "submit_time", "gpus": "num_gpu", "seconds": "duration"},
    {"model": "model_name"},
    frozenset({"iterations", "interval"}),
)
