"""Traces that say all about a job in one row: the plain format (with ITP and Philly), and Tiresias's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cotune.cluster.parameter_servers import ParameterServerWork
from cotune.cluster.policy import Submission
from cotune.cluster.traces._lines import Make, Reader, TraceLine, count, duration, number, seconds
from cotune.cluster.work import Steady
from cotune.errors import suggestion


@dataclass(frozen=True)
class TraceColumns(Reader):
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
            *super().header_problems(header),
            *(f"unknown column {column!r}{suggestion(column, known)}" for column in unknown),
            *(f"column {column!r} is there twice" for column in double),
        ]

    def open(self, header: Sequence[str], path: Path) -> Make:  # noqa: ARG002  # the header says all
        place = {what: header.index(column) for what, column in self.needs.items()}
        may = {what: header.index(column) for what, column in self.may.items() if column in header}
        name, submit, gpus, run = (place[what] for what in ("name", "submit", "gpus", "seconds"))

        def make(line: TraceLine) -> Submission:
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
                priority=_priority(given.get("priority", "0")),
                weight=_weight(given.get("weight", "1")),
                batch_size=count(given.get("batch_size", "1"), "batch_size"),
                model=given.get("model", ""),
                skewed=given.get("skewed", "0") in ("1", "true", "True"),
                row=line.number,
            )
            if "law" in given:
                return _served(job, given)
            return job if "rack_slowdown" not in given else _slower(job, given["rack_slowdown"])

        return make


def _served(job: Submission, given: Mapping[str, str]) -> Submission:
    """Return a job with parameter servers, whose run time is that of the workers and servers it asked for."""
    servers = count(given.get("servers", ""), "servers")
    law = tuple(seconds(text, "server_law") for text in given["law"].split())
    blocks = tuple(seconds(text, "parameter_bytes") for text in given.get("blocks", "").split())
    if len(law) != 5 or not sum(law) > 0:
        raise ValueError(f"server_law is {given['law']!r}, not the five numbers t0 t1 t2 t3 t4 of a step's seconds")
    if not blocks or min(blocks) <= 0:
        raise ValueError(f"parameter_bytes is {given.get('blocks', '')!r}, not the bytes of each block of the model")
    work = ParameterServerWork(
        0.0, job.batch_size, (law[0], law[1], law[2], law[3], law[4]), blocks, device=job.device or "gpu"
    )
    wants = work.config(job.gpus, servers)
    total = job.seconds / work.step_seconds(wants)
    return replace(job, gpus=job.gpus + servers, work=replace(work, total=total), wants=wants)


def _slower(job: Submission, text: str) -> Submission:
    """Return a job that takes so many times as long when its nodes stand in several racks."""
    value = number(text, "rack_slowdown")
    if not 1 <= value < float("inf"):
        raise ValueError(f"rack_slowdown is {text}; it is 1 or more, times the run time within a rack")
    return replace(job, work=Steady(job.seconds, {job.config: 1.0}, value), wants=job.config)


def _priority(text: str) -> int:
    value = number(text, "priority")
    if not value.is_integer():
        raise ValueError(f"priority is {text}, not a whole number")
    return int(value)


def _weight(text: str) -> float:
    value = number(text, "weight")
    if not 0 < value < float("inf"):
        raise ValueError(f"weight is {text}; it must be positive and finite")
    return value


PLAIN = TraceColumns(
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
        "servers": "servers",
        "law": "server_law",
        "blocks": "parameter_bytes",
    },
    frozenset({"cluster", "vc", "iterations", "user", "status"}),
)
TIRESIAS = TraceColumns(
    "tiresias",
    {"name": "job_id", "submit": "submit_time", "gpus": "num_gpu", "seconds": "duration"},
    {"model": "model_name"},
    frozenset({"iterations", "interval"}),
)
