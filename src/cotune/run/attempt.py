"""One start of one config, from launch to sample.

A profile is a short run and a run is a long profile: both are this generator, which
yields the sample as it grows, so that whoever reads it can store every step. It decides
when enough was seen (`StopRule`); what the reports say of speed is `cotune.training_speed`.
Where its device was still another's, it is begun again, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final, Literal

from cotune import progress
from cotune.jobfile.scripts import note_digests
from cotune.run.launch import Ended, Engine, Event, Launch, Reported, Started, checkpoint_seconds
from cotune.run.load import LoadWatch
from cotune.run.logged import written_log
from cotune.run.training import ended_short
from cotune.training_speed import TELLING_SECONDS, Mark, shares, speed, told_seconds
from cotune.types import Cause, Evaluation, Failure, Job, Sample, Terms

_PARTS = ("compute", "communication", "input")
_TIMES = ("evaluation", "checkpoint")
_TICK = 0.5
_MOST_MARKS = 256  # a long run keeps every second mark when it has more
ENOUGH: Final = "enough"
_FEW_MARKS = 4  # reports before the job's own rhythm is known
_LEAST_SILENCE = 30.0
_LAST_SECONDS = 5.0  # for a job that hangs to come to its senses
_HANGING = 10  # times the longest silence before, with which a start that was stopped seems to have hung
_QUIET = 1.0  # seconds of silence that are worth a word
_RESERVED = 0.1  # of a budget, at most, for coming to an end within it
_LINGER_SECONDS = 5.0  # without an end after the last epoch, before that is told
HERE = "local"  # the engine whose workers share this machine with whatever else runs on it
_LETTING_GO = 1.0  # seconds for whoever still has the device
_TELL_SECONDS = 0.5  # between two samples that only say how far it is
Stop = Failure | Literal["enough"]  # why a start is stopped: something is wrong with it, or enough was seen


@dataclass(frozen=True, slots=True)
class StopRule:
    """When to stop a start: enough epochs, no budget left, too many seconds in all or without a word.

    The first two are no fault of the config; the others are a time-out. After the first two
    the job has `grace` seconds to finish by itself, or to come to a checkpoint; a tenth of the
    budget at most is kept for that. `gaps` is a heartbeat of the job's own: so
    many times longer without a word than ever before in this start. With `once_up` the budget counts from when the
    job's own code begins: the engine stays up for what follows.
    """

    epochs: float | None = None
    budget: float | None = None
    timeout: float | None = None
    silence: float | None = None
    grace: float = 1.0
    gaps: float | None = None
    once_up: bool = False

    @property
    def reserve(self) -> float:
        """Return the seconds of the budget that are kept for coming to an end."""
        return min(self.grace, _RESERVED * (self.budget or 0.0))

    def grace_after(self, spent: float) -> float:
        """Return the seconds to come to an end after so many: of the budget, those that are left."""
        return self.grace if self.budget is None else min(self.grace, max(self.reserve, self.budget - spent))


def attempt(engine: Engine, launch: Launch, until: StopRule, sample: Sample) -> Iterator[Sample]:
    """Start the launch and yield its sample as it grows; the last one has `ended` set."""
    begun = engine.now()
    engine.start(launch)
    note_digests(launch.job, launch.folder)
    growing = Growing(
        launch, begun, replace(sample, ended=False, length=progress.whole_units(launch.job, launch.epochs))
    )
    yield growing.sample
    # A recording and a cluster of other machines say nothing of this one.
    watch = LoadWatch() if sample.engine == HERE else None
    stopping: Stop | None = None
    heard: float | None = None  # until its code runs, the engine alone may be slow: a queue, an import
    while True:
        try:
            event = engine.wait(_TICK)
            if stopping is None and growing.refused(event):
                engine.wait(_LETTING_GO)
                growing.begin_again(engine.now())
                engine.start(launch)
                heard = None
                continue
        except KeyboardInterrupt:
            yield growing.interrupted(engine.now())
            raise
        now = engine.now()
        if watch is not None:
            watch.look(now)
        if isinstance(event, Ended) and event.launch == launch.id:
            yield replace(growing.finish(event, stopping), load=watch.load if watch else None)
            return
        if isinstance(event, Started) and event.launch == launch.id:
            heard = event.at
            growing.started(event)
        if isinstance(event, Reported) and event.launch == launch.id:
            heard = now
            if growing.told(event):
                yield growing.sample
        if event is None and growing.lingers(now):
            yield growing.sample
        if stopping is None:
            stopping = growing.reason_to_stop(until, now, heard)
            if stopping is not None:
                engine.stop(launch.id, growing.grace(until, stopping, now))


class Growing:
    """The sample of a start in flight."""

    def __init__(self, launch: Launch, begun: float, sample: Sample) -> None:
        self.launch, self.begun, self.sample = launch, begun, sample
        self.marks: list[Mark] = []
        self.parts: dict[str, float] = {}
        self.times: dict[str, list[float]] = {}
        self.paused = 0.0
        self.up = begun
        self.is_up = False
        self.lost: float | None = None  # seconds until it was begun again
        self.resumed_at = sample.epochs
        self.told_at = self.longest_gap = self.yielded_at = 0.0

    def started(self, event: Started) -> None:
        self.up, self.is_up = event.at, True
        self.sample = replace(self.sample, modelled=event.modelled is not None, terms=self._terms(None))

    def refused(self, event: Event | None) -> bool:
        """Say whether it ended without its device, and is yet to be begun again."""
        if not isinstance(event, Ended) or event.launch != self.launch.id or event.failure is None:
            return False
        return event.failure.cause is Cause.BUSY and not self.marks and self.lost is None

    def begin_again(self, now: float) -> None:
        self.lost, self.up, self.is_up = now - self.begun, now, False

    def told(self, event: Reported) -> bool:
        """Take in a report; return whether the sample says more than before, or is half a second further."""
        for name, value in event.terms:
            if name in _TIMES:
                self.times.setdefault(name, []).append(value)
                self.paused += value
            elif name in _PARTS:
                self.parts[name] = self.parts.get(name, 0.0) + value
        self.longest_gap = max(self.longest_gap, event.at - self.told_at) if self.told_at else 0.0
        self.told_at = event.at
        if event.epoch is None or not math.isfinite(event.epoch):
            return False
        if self.launch.resume and not self.marks:
            self.resumed_at = event.epoch  # where its checkpoint was, which may lie before its last report
        training = event.at - self.begun - self.paused
        self.marks.append(Mark(event.epoch - self.resumed_at, training, dict(self.parts)))
        if len(self.marks) > _MOST_MARKS:
            self.marks = self.marks[::2]
        elapsed = event.at - self.begun
        curve = self.sample.curve
        if event.accuracy is not None and math.isfinite(event.accuracy):
            curve = (*curve, Evaluation(event.epoch, event.accuracy, elapsed, event.metrics))
        self.sample = self._measured(replace(self.sample, epochs=event.epoch, curve=curve, seconds=elapsed))
        worth_telling = event.accuracy is not None or len(self.marks) <= 2
        if worth_telling or event.at - self.yielded_at >= _TELL_SECONDS:
            self.yielded_at = event.at
            return True
        return False

    @property
    def finished(self) -> bool:
        """Say whether nothing is left to train; what a job does then, such as saving, it need not tell."""
        met = self.launch.job.meets(self.launch.target, self.sample.accuracy)
        return met or self.sample.epochs >= self.launch.epochs

    def lingers(self, now: float) -> bool:
        """Say now and then that a job with nothing left to train has not ended yet; its sample tells since when."""
        if not self.finished or now - max(self.told_at, self.yielded_at) < _LINGER_SECONDS:
            return False
        self.yielded_at = now
        self.sample = replace(self.sample, seconds=now - self.begun)
        return True

    def _measured(self, sample: Sample) -> Sample:
        pace, startup = speed(self.marks, self.up - self.begun)
        return replace(
            sample,
            epoch_seconds=pace,
            accuracy=sample.curve[-1].accuracy if sample.curve else None,
            terms=self._terms(startup),
        )

    def _terms(self, startup: float | None) -> Terms:
        times = {name: median(each) for name, each in self.times.items()}
        return Terms(engine=self.up - self.begun - (self.lost or 0.0), startup=startup, **shares(self.marks), **times)

    def reason_to_stop(self, until: StopRule, now: float, heard: float | None) -> Stop | None:
        if until.epochs is not None and self.sample.epochs >= until.epochs and self._is_pace_told():
            return ENOUGH
        known, spent = self.sample.epoch_seconds is not None, now - self.begun
        if until.budget is not None and self._paid(until, now) > until.budget - until.reserve:
            share = f"no result within {until.budget:.3g} s, its share of the budget for measuring"
            return ENOUGH if known else Failure.interrupted(share)
        if until.timeout is not None and spent > until.timeout:
            return ENOUGH if known else Failure(f"timed out: no result within {until.timeout:g} s")
        silence = None if self.finished else self.silence(until)
        if silence is not None and heard is not None and now - heard > silence:
            words = f"timed out: no report for {silence:.3g} s, it hangs or never calls cotune.report"
            return Failure(words, Cause.OUTSIDE)
        return None

    def _paid(self, until: StopRule, now: float) -> float:
        """Return the seconds that count towards the budget."""
        if until.once_up:
            return now - self.up if self.is_up else 0.0
        return now - self.begun

    def _is_pace_told(self) -> bool:
        """Say whether the reports so far tell a pace, or no more will come.

        Lines that are printed have the times at which they were read: those of quick epochs must lie further apart.
        """
        if len(self.marks) < 2:
            return False
        exact = self.launch.job.hears or self.sample.epochs >= self.launch.epochs
        return exact or told_seconds(self.marks) >= TELLING_SECONDS

    def grace(self, until: StopRule, stopping: Stop, now: float) -> float:
        """Return how many seconds a start that is stopped for this reason has to come to an end."""
        if isinstance(stopping, Failure) and stopping.cause is not Cause.INTERRUPTED:
            return _LAST_SECONDS
        most = until.grace_after(self._paid(until, now))
        if self.sample.epochs >= self.launch.epochs:  # it has done what it was told, and ends by itself
            return most
        return checkpoint_seconds(self.launch.job, most, self.sample.epoch_seconds)

    def silence(self, until: StopRule) -> float | None:
        """Return how many seconds without a word are too many."""
        if until.silence is not None or until.gaps is None or len(self.marks) < _FEW_MARKS:
            return until.silence
        return max(_LEAST_SILENCE, until.gaps * self.longest_gap)

    def interrupted(self, now: float) -> Sample:
        by_user = Failure.interrupted("by the user")
        return replace(self.sample, seconds=now - self.begun, failure=by_user, ended=True)

    def finish(self, event: Ended, stopping: Stop | None) -> Sample:
        seconds = event.at - self.begun
        failure = event.failure if event.outcome == "failed" else None
        if isinstance(stopping, Failure):
            told_late = stopping.cause is Cause.INTERRUPTED and self.sample.epoch_seconds is not None
            failure = failure if told_late else stopping
        elif failure is None and not self.marks and stopping is None:
            failure = Failure(f"ended without a report: {_unheard(self.launch.job, self.sample)}", Cause.UNHEARD)
        odd = self._odd(event, stopping) if failure is None else ()
        warning = "; ".join(filter(None, [event.warning, *odd])) or None
        said = self.sample
        if failure is not None and failure.cause is Cause.APART:  # what was learnt is another recipe's
            said = replace(said, epoch_seconds=None, accuracy=None, curve=())
        return replace(
            said,
            seconds=seconds,
            failure=failure,
            warning=warning,
            ended=True,
            peak_bytes=event.peak_bytes,
            limit_bytes=event.limit_bytes,
            copies=event.copies,
        )

    def _odd(self, event: Ended, stopping: Stop | None) -> Iterator[str]:
        """Yield what is strange about a start that did not fail."""
        said, launch = self.sample, self.launch
        if self.lost is not None:
            yield f"begun again after {self.lost:.3g} s, as its device was still busy"
        if len(self.marks) == 1 and self.marks[0].epoch > 0:
            yield "one report only, so start-up counts as training: report epoch=0 before the first step"
        elif said.epoch_seconds is not None and told_seconds(self.marks) <= 0:
            yield f"all its {len(self.marks)} reports were read at once, so start-up counts as training"
        alone = self.marks and stopping is None and event.outcome == "done"
        short = said.epochs <= launch.epochs - 1 and ended_short(said, launch.epochs)
        if alone and short and not launch.job.reached(launch.target, said):
            whole = progress.words(launch.job, said.config, launch.epochs)
            done = progress.amount(launch.job, said.config, said.epochs)
            yield f"ended by itself after {done:.3g} of {whole}"
        quiet = 0.0 if self.finished else event.at - self.told_at  # what it saves at its end is no silence
        if stopping == ENOUGH and quiet > max(_QUIET, _HANGING * max(self.longest_gap, said.epoch_seconds or 0)):
            yield f"said nothing for its last {quiet:.3g} s: does it hang?"


def _unheard(job: Job, sample: Sample) -> str:
    """Return what would let a start be heard that told nothing: its calls, its lines, or the log that it wrote."""
    log = written_log(Path(job.folder), sample.started) if job.log is None and sample.started else None
    reads = "" if log is None or log.endswith("}") else ", with a pattern of its lines,"
    wrote = f"; it wrote a log: `{log}` in the job file{reads} reads it" if log else ""
    if job.pattern:
        return f"no line matched the pattern '{job.pattern}'{wrote}"
    calls = "call cotune.report(epoch=..., accuracy=...), give a pattern of its lines"
    return f"{calls}, or name the log that it writes (`log:` in the job file){wrote}"
