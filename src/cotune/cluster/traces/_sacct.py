"""Slurm's accounting: `sacct --parsable2 --allusers -o JobID,Submit,ElapsedRaw,AllocTRES[,Account,...]`.

GPUs are those of AllocTRES (or ReqTRES), as in `gres/gpu=4`. Job steps (`123.batch`) are no
jobs. Times count from the first submission in the file. With Start and End instead of
ElapsedRaw the run time is their difference; `Timelimit` plays no part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cotune.cluster.policy import Submission
from cotune.cluster.traces._lines import Make, Reader, TraceLine, duration
from cotune.units import seconds as in_seconds

_GPUS = re.compile(r"gres/gpu(?::\w+)?=(\d+)")
_TRES = ("AllocTRES", "ReqTRES")


class _Sacct(Reader):
    name = "sacct"

    def knows(self, header: Sequence[str]) -> bool:
        return "JobID" in header and "Submit" in header

    def missing(self, header: Sequence[str]) -> list[str]:
        lacking = [column for column in ("JobID", "Submit") if column not in header]
        if not set(_TRES) & set(header):
            lacking.append("AllocTRES")
        if not ({"ElapsedRaw", "Elapsed"} & set(header) or {"Start", "End"} <= set(header)):
            lacking.append("ElapsedRaw")
        return lacking

    def header_problems(self, header: Sequence[str]) -> list[str]:
        return [f"no column {column!r}; ask sacct for it with -o" for column in self.missing(header)]

    def open(self, header: Sequence[str], path: Path) -> Make:  # noqa: ARG002  # the header says all
        first: list[datetime] = []

        def make(line: TraceLine) -> Submission | None:
            row = dict(zip(header, line.columns, strict=True))
            if "." in row["JobID"]:
                return None
            submitted = _moment(row["Submit"], "Submit")
            gpus, elapsed = _gpus(row), _elapsed(row)
            first.append(min(first[-1], submitted) if first else submitted)
            submit = (submitted - first[0]).total_seconds()
            if submit < 0:
                raise ValueError(f"Submit is {row['Submit']}, before the first line; sort by submission (sacct does)")
            return Submission(row["JobID"], submit, gpus, elapsed, team=row.get("Account", ""), row=line.number)

        return make

    def date(self, header: Sequence[str], line: TraceLine) -> datetime | None:
        return _moment(line.columns[list(header).index("Submit")], "Submit")


def _gpus(row: dict[str, str]) -> int:
    for column in _TRES:
        typed = [int(number) for number in _GPUS.findall(row.get(column, ""))]
        if max(typed, default=0):
            return max(typed)
    raise ValueError("the job has no GPU (gres/gpu)")


def _elapsed(row: dict[str, str]) -> float:
    if row.get("ElapsedRaw"):
        return duration(row["ElapsedRaw"], "ElapsedRaw")
    if row.get("Elapsed"):
        return 0.0 if row["Elapsed"] == "00:00:00" else in_seconds(row["Elapsed"])
    return (_moment(row.get("End", ""), "End") - _moment(row.get("Start", ""), "Start")).total_seconds()


def _moment(text: str, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}, not a date and time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


READER = _Sacct()
