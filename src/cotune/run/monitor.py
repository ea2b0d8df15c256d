"""What a launch says while it runs, and what that makes of its end.

What a launch was told to do outweighs how it then ended: a worker that loses its peers
after the target was met, or after a stop, has not failed.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from cotune import checkpoints
from cotune.errors import CotuneError
from cotune.jobfile.command import shares_work
from cotune.run.launch import UNHEARD_SECONDS, Ended, Launch, Reported
from cotune.run.logged import Files, ToolLog
from cotune.run.memory import most
from cotune.run.tail import Tail, begins_at_zero, from_log, from_report
from cotune.types import Cause, Failure

COUNTS_FROM_ZERO = "its epochs count from 0, so the end of its epoch 0 counts as one epoch"
_APART = "never met (no process group, and nothing reads WORLD_SIZE), so each trained alone: search workers 1"


@dataclass(kw_only=True)
class Hearing:
    """The ear of an engine for one launch: where it speaks, and what it has said."""

    launch: Launch
    report: Tail
    log: Tail | Files
    tool: ToolLog | None
    pattern: re.Pattern[str] | None
    started: bool = False
    stopped: bool = False
    target_met: bool = False
    last_epoch: float = math.inf
    went_on: bool = False
    terminating: bool = False  # how workers end from now on is our doing
    terminate_at: float | None = None
    spoiled: str | None = None
    unread: int = 0
    learnt: bool = False  # an epoch or a part of one was told
    apart: bool = False  # several workers, and no process group was ever made
    from_zero: bool | None = None  # known once a line tells an epoch and how good the model is after it

    def hear(self, now: float, *, last: bool = False) -> Iterator[Reported]:
        """Yield what rank 0 has reported since; note a target that is met and numbers worth nothing.

        A quick job may report before the word of its start is here: that waits. What lies after the
        evaluation that met the target is no part of the run any more.
        """
        if not (self.started or last):
            return
        for said in self._reports(now, last):
            if said.accuracy is not None and not math.isfinite(said.accuracy):
                when = "" if said.epoch is None else f" after epoch {said.epoch:g}"
                self.spoiled = self.spoiled or f"rank 0 reported {self.launch.job.metric} {said.accuracy}{when}"
                continue
            if said.epoch is not None and said.epoch > self.last_epoch:
                self.went_on = True
                continue
            self.learnt = self.learnt or bool(said.epoch)
            if not self.target_met and self.launch.job.meets(self.launch.target, said.accuracy):
                self.target_met = True
                self.last_epoch = math.inf if said.epoch is None else said.epoch
            yield said

    def end_at_target(self, now: float, target_grace: float) -> None:
        """Let a job whose target is met finish by itself, for a while.

        One that calls cotune.report was told; one that is read has gone on once it says more.
        """
        if not self.target_met or self.terminating:
            return
        unheard = 0.0 if self.went_on else UNHEARD_SECONDS
        end = now + (target_grace if self.launch.job.hears else unheard)
        self.terminate_at = end if self.terminate_at is None else min(self.terminate_at, end)

    def ended(self, at: float, why: Failure | None, warning: str | None) -> Ended:
        """Return how the launch ended, given why a worker failed, if one did."""
        ended = self._outcome(at, why, [warning, *self._warnings()])
        memory = most(self.launch.folder, self.launch.config.workers)
        return replace(ended, **asdict(memory)) if memory else ended

    def _outcome(self, at: float, why: Failure | None, warnings: list[str | None]) -> Ended:
        name = self.launch.id
        if self.learnt and self.apart and not shares_work(self.launch.job):
            words = f"{self.launch.config.workers} workers {_APART}"
            if self.launch.probe_epochs is not None:
                return Ended(name, at, "failed", Failure(words, Cause.APART), _joined(warnings))
            warnings.append(words)
        if self.spoiled:
            return Ended(name, at, "failed", Failure(self.spoiled), _joined(warnings))
        if self.target_met:
            return Ended(name, at, "done", None, _joined([*warnings, why.words if why else None]))
        if self.stopped:
            return Ended(name, at, "stopped", None, _joined(warnings))
        return Ended(name, at, "failed" if why else "done", why, _joined(warnings))

    def _reports(self, now: float, last: bool) -> Iterator[Reported]:
        for line in self.report.lines(last=last):
            said = from_report(self.launch.id, line)
            if said is None:
                self.unread += 1
            else:
                yield said
        try:
            yield from self.tool.reports(now, last=last) if self.tool else ()
        except CotuneError as error:
            self.spoiled = self.spoiled or str(error)
        if self.pattern is None:
            return
        for line in self.log.lines(last=last):
            try:
                found = from_log(self.launch.id, line, self.pattern, self._printed(now), self.launch.job.metric)
            except ValueError as error:
                self.spoiled = self.spoiled or f"the pattern found no number in {line.strip()[:80]!r}: {error}"
                return
            if found is not None:
                yield self._from_one(found, line, self.pattern)

    def _printed(self, now: float) -> float:
        """Return when the line that was just read was printed, as far as is known: when it was read."""
        return now

    def _from_one(self, found: Reported, line: str, pattern: re.Pattern[str]) -> Reported:
        """Return what a line says in epochs done: in a script that counts from 0, epoch 0 is done when it is told."""
        if self.from_zero is None and found.accuracy is not None:
            self.from_zero = self._counts_from_zero(line, pattern)
        return replace(found, epoch=found.epoch + 1) if self.from_zero and found.epoch is not None else found

    def _counts_from_zero(self, line: str, pattern: re.Pattern[str]) -> bool:
        """Return whether the first line of a start tells epoch 0, or that of the start it goes on from did."""
        mark = self.launch.folder / checkpoints.FROM_ZERO
        if self.launch.resume:
            return mark.exists()
        found = begins_at_zero(line, pattern)
        with contextlib.suppress(OSError):  # on a full disk the next start counts one epoch less
            if found:
                mark.touch()
            else:
                mark.unlink(missing_ok=True)
        return found

    def _warnings(self) -> Iterator[str]:
        if self.from_zero:
            yield COUNTS_FROM_ZERO
        if self.tool is not None and self.tool.missing:
            yield f"its log told nothing: {self.tool.missing}"
        if self.unread:
            yield f"{self.unread} line{'s' if self.unread > 1 else ''} of the report could not be read"


def _joined(words: list[str | None]) -> str | None:
    return "; ".join(word for word in words if word) or None
