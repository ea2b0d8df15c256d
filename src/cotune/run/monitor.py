"""What a launch says while it runs, and what that makes of its end.

A launch that met its target, or has done its epochs, is over when it ends by itself: a crash before
that is a failure, and so is one that is still busy when its time is up (`stop_grace`), since what it
saves last may be missing. Rank 0 is who reports and saves: once it has ended well, a worker that loses
its peers has not failed. A script that cannot know that its target is met is ended soon after.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from cotune import checkpoints, progress
from cotune.errors import CotuneError
from cotune.jobfile import metric_names
from cotune.jobfile.command import takes
from cotune.jobfile.pattern import counts_apart, other_name, pattern_of
from cotune.run.launch import Ended, Launch, Reported, checkpoint_seconds
from cotune.run.lease import Lease
from cotune.run.local.messages import Record
from cotune.run.logged import log_of, tool_of
from cotune.run.memory import most
from cotune.run.tail import Tail, TooSlow, begins_at_zero, from_log, from_report, told_no_number, warning_in
from cotune.types import Cause, Failure
from cotune.units import duration
from cotune.worker.report import as_word

COUNTS_FROM_ZERO = "its epochs count from 0, so the end of its epoch 0 counts as one epoch"
PEER_SECONDS = 60.0  # for the others to end once rank 0 has ended well
_TRAINED_ON = (
    "it trained on past its target and was ended, so that what it saves at its end is missing; "
    "`if cotune.report(...): break` lets it finish"
)
_MOST_NAMED = 5  # metrics in a warning
_LEFT_BEHIND = "rank 0 had ended, but others were still busy and were ended"
_APART = (
    "never met (no process group), so each trained alone: search workers 1, "
    "or say `reads: [workers]` in the job file where they share the work by other means"
)


@dataclass(kw_only=True)
class LaunchMonitor:
    """The ear of an engine for one launch: where it speaks, and what it has said."""

    launch: Launch
    lease: Lease  # of its folder
    started: bool = False
    stopped: bool = False
    target_met: bool = False
    last_epoch: float = math.inf
    past: float = 0.0  # epochs told of after the target was met
    furthest: float = 0.0  # epochs told of until then
    told_at: float | None = None  # when the last evaluation was, by the engine's clock
    gap: float = 0.0  # the longest time between two evaluations
    terminating: bool = False  # how workers end from now on is our doing
    terminate_at: float | None = None
    overdue: bool = False  # it was still busy when its time to end was up
    spoiled: Failure | None = None
    diverged: str | None = None  # the line from which on nothing but nan was told
    others: frozenset[str] = frozenset()  # metrics that were told besides the job's
    unread: int = 0
    said_to_warn: tuple[str, ...] = ()  # by the job's side
    learnt: bool = False  # an epoch or a part of one was told
    apart: bool = False  # several workers, and no process group was ever made
    counted: tuple[Reported, str] | None = None  # the last line that only counted, where evaluations do not
    from_zero: bool | None = None  # known once a line tells an epoch and how good the model is after it

    def __post_init__(self) -> None:
        self.report = Tail(self.folder / "rank-0.jsonl")
        self.log, self.tool = log_of(self.launch, self.folder / "rank-0.log"), tool_of(self.launch)
        self.pattern = pattern_of(self.launch.job)

    @property
    def folder(self) -> Path:
        """Return where its files are."""
        return self.lease.folder

    def hear(self, now: float, *, last: bool = False) -> Iterator[Reported]:
        """Yield what rank 0 has reported since; note a target that is met and numbers worth nothing.

        A quick job may report before the word of its start is here: that waits. What lies after the
        evaluation that met the target is no part of the run any more.
        """
        if not (self.started or last):
            return
        for said in self._reports(now, last):
            if said.accuracy is not None and not math.isfinite(said.accuracy):
                when = "" if said.epoch is None else f" after {self._place(said.epoch)}"
                self._spoil(f"rank 0 reported {self.launch.job.metric} {said.accuracy}{when}")
                continue
            if said.epoch is not None and said.epoch > self.last_epoch:
                self.past = max(self.past, said.epoch - self.last_epoch)
                continue
            self.others |= {name for name, _ in said.metrics} if said.accuracy is None else set()
            self._take_in(said)
            yield said

    def _take_in(self, said: Reported) -> None:
        self.learnt = self.learnt or bool(said.epoch)
        self.furthest = max(self.furthest, said.epoch or 0.0)
        if said.accuracy is not None:
            self.diverged = None
            self.gap = max(self.gap, 0.0 if self.told_at is None else said.at - self.told_at)
            self.told_at = said.at
        if not self.target_met and self.launch.job.meets(self.launch.target, said.accuracy):
            self.target_met = True
            self.last_epoch = math.inf if said.epoch is None else said.epoch
            if self._ends_by_itself:  # a stop that came before is none any more
                self.terminate_at = None

    @property
    def finished(self) -> bool:
        """Say whether there is nothing left to train."""
        return self.target_met or self.furthest >= self.launch.epochs

    @property
    def _ends_by_itself(self) -> bool:
        """Say whether a job whose target is met has nothing more to do: it was told so, or has done its epochs."""
        if self.furthest >= self.launch.epochs:
            return True
        return self.launch.job.hears and self.past < 1.0

    def time_is_up(self, now: float) -> bool:
        """Say whether it is time to end the workers: they were stopped, or their target is met, and they go on."""
        if not self.terminating:
            if self.target_met:
                self._end_by(now + self._grace())
            if (self.target_met or self.stopped) and self._is_done(0):
                self._end_by(now + PEER_SECONDS)
        self.overdue = self.overdue or (self.terminate_at is not None and now >= self.terminate_at)
        return self.terminate_at is not None and now >= self.terminate_at

    def _grace(self) -> float:
        """Return the seconds that a job whose target is met has to end by itself."""
        if self._ends_by_itself:
            return self.launch.stop_grace
        return 0.0 if self.past else checkpoint_seconds(self.launch.job, self.launch.stop_grace, self.gap)

    def _end_by(self, at: float) -> None:
        self.terminate_at = at if self.terminate_at is None else min(self.terminate_at, at)

    def _is_done(self, rank: int) -> bool:
        record = Record.read(self.launch.folder, rank)
        return record is not None and record.status == "done"

    def ended(self, at: float, why: Failure | None, warning: str | None) -> Ended:
        """Return how the launch ended, given why a worker failed, if one did."""
        ended = replace(self._outcome(at, why, [warning, *self._warnings()]), copies=self._copies)
        memory = most(self.launch.folder, self.launch.config.workers)
        return replace(ended, **asdict(memory)) if memory else ended

    def _outcome(self, at: float, why: Failure | None, warnings: list[str | None]) -> Ended:
        name = self.launch.id
        if self.lease.is_lost:
            words = f"another start has taken over {self.lease.folder}, so this one was ended"
            return Ended(name, at, "failed", Failure(words), _joined(warnings))
        if self._copies:
            words = f"{self.launch.config.workers} workers {_APART}"
            if self.launch.probe_epochs is not None:
                return Ended(name, at, "failed", Failure(words, Cause.APART), _joined(warnings))
            warnings.append(words)
        if self.diverged and not self.target_met:
            self._spoil(f"{self.launch.job.metric} was no number from {self.diverged!r} on")
        if self.spoiled:
            return Ended(name, at, "failed", self.spoiled, _joined(warnings))
        if (failure := self._unsaved(why)) is not None:
            return Ended(name, at, "failed", failure, _joined(warnings))
        warnings += [why.words if why else None, self._cut_short()]
        outcome: Literal["done", "stopped"] = "stopped" if self.stopped and not self.target_met else "done"
        return Ended(name, at, outcome, None, _joined(warnings))

    @property
    def _copies(self) -> bool:
        """Say whether the workers never met, so that each trained alone."""
        return self.learnt and self.apart and not takes(self.launch.job, "workers")

    def _cut_short(self) -> str | None:
        """Return what to say of a launch that was ended although nothing was left to train."""
        if self.launch.probe_epochs is not None or not (self.overdue and self.finished):
            return None
        if not self._is_done(0):
            return _TRAINED_ON if self.target_met else None
        return None if all(map(self._is_done, range(1, self.launch.config.workers))) else _LEFT_BEHIND

    def _unsaved(self, why: Failure | None) -> Failure | None:
        """Return why what the job leaves at its end may not be there, given why a worker failed, if one did."""
        is_probe = self.launch.probe_epochs is not None
        if (self.target_met or self.stopped) and self._is_done(0):
            return None
        if why is not None:  # what is stopped half way goes on from its checkpoint
            return None if self.stopped and not self.finished else why
        if is_probe or not (self.overdue and self.finished and self._ends_by_itself):
            return None
        done = "its target was met" if self.target_met else "it has done its epochs"
        return Failure(
            f"{done}, but it did not end within {duration(self.launch.stop_grace)} and was ended: "
            "what it saves at its end may be missing; allow it more time with stop_grace"
        )

    def _reports(self, now: float, last: bool) -> Iterator[Reported]:
        for line in self.report.lines(last=last):
            said = from_report(self.launch.id, line, self._parts_done)
            if (words := warning_in(line)) is not None:
                self.said_to_warn = tuple(dict.fromkeys((*self.said_to_warn, words)))
            elif said is None:
                self.unread += 1
            else:
                yield said
        try:
            yield from self.tool.reports(now, last=last) if self.tool else ()
        except CotuneError as error:
            self._spoil(str(error))
        if self.pattern is None:
            return
        for line in self.log.lines(last=last):
            try:
                at, metric = self._printed(now), self.launch.job.metric
                found = from_log(self.launch.id, line, self.pattern, at, metric, count=self._parts_done)
                if found is None and told_no_number(line, self.pattern, metric):
                    self.diverged = self.diverged or line.strip()[:80]
            except TooSlow as error:
                self._spoil(str(error))
                return
            except ValueError as error:
                self._spoil(f"the pattern found no number in {line.strip()[:80]!r}: {error}")
                return
            if found is not None and self._is_called_otherwise(line, self.pattern):
                return
            if found is not None:
                yield from self._evaluated(found, line, self.pattern)

    def _place(self, parts: float) -> str:
        """Return how far a job is in its own unit: `epoch 3`, `step 500`."""
        job = self.launch.job
        return f"{progress.each(job)} {progress.amount(job, self.launch.config, parts):g}"

    def _parts_done(self, said: Mapping[str, float]) -> float | None:
        """Return how far a job is by what it tells of its epochs, steps or tokens."""
        return progress.done(self.launch.job, self.launch.config, said)

    def _spoil(self, words: str, cause: Cause = Cause.JOB) -> None:
        self.spoiled = self.spoiled or Failure(words, cause)

    def _is_called_otherwise(self, line: str, pattern: re.Pattern[str]) -> bool:
        """Say whether the pattern takes a number for the metric that the line calls another one."""
        match, metric = pattern.search(line), self.launch.job.metric
        name = other_name(metric, match) if match else None
        if name is not None:
            words = f"the pattern reads {name!r} as {metric} in {line.strip()[:80]!r}"
            self._spoil(f"{words}: let it read {metric}, or set the target on what it reads", Cause.UNHEARD)
        return name is not None

    def _printed(self, now: float) -> float:
        """Return when the line that was just read was printed, as far as is known: when it was read."""
        return now

    def _evaluated(self, found: Reported, line: str, pattern: re.Pattern[str]) -> Iterator[Reported]:
        """Yield what a line says; where it does not count, as of the last that did."""
        if not counts_apart(pattern):
            yield self._from_one(found, line, pattern)
        elif found.epoch is not None:
            self.counted = (found, line)
        elif self.counted is not None:
            count, counting_line = self.counted
            yield self._from_one(replace(found, epoch=count.epoch), counting_line, pattern)

    def _from_one(self, found: Reported, line: str, pattern: re.Pattern[str]) -> Reported:
        """Return what a line says in epochs done: in a script that counts from 0, epoch 0 is done when it is told."""
        if self.from_zero is None and found.accuracy is not None:
            self.from_zero = self._counts_from_zero(line, pattern)
        if not self.from_zero or found.epoch is None:
            return found
        return replace(found, epoch=found.epoch + self.launch.job.counting.parts)

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
        yield from self.said_to_warn
        if self.from_zero:
            yield COUNTS_FROM_ZERO
        judged = self.launch.target is not None or self.launch.job.large is None  # a layout is chosen by its seconds
        if judged and self.others and self.told_at is None:
            yield self._never_told(self.launch.job.metric)
        if self.tool is not None and self.tool.missing:
            yield f"its log told nothing: {self.tool.missing}"
        if self.unread:
            yield f"{self.unread} line{'s' if self.unread > 1 else ''} of the report could not be read"

    def _never_told(self, metric: str) -> str:
        """Return what to do about a metric that no evaluation told, though they told others."""
        if self.others == {"accuracy"}:
            return f"it told accuracy, but never {metric}: cotune.report(epoch=..., {as_word(metric)}=...)"
        told = sorted(self.others, key=lambda name: (not metric_names.is_held_out(name), name))
        named = ", ".join(told[:_MOST_NAMED]) + (", ..." if len(told) > _MOST_NAMED else "")
        return f"it told {named}, but never {metric}: set the target on one of those"


def _joined(words: list[str | None]) -> str | None:
    return "; ".join(word for word in words if word) or None
