"""What a profile came to: the new samples beside the known ones, and why nothing was learnt where nothing was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cotune.errors import CotuneError, EngineError, OverBudget
from cotune.jobfile.finder import suggested
from cotune.jobfile.metric_names import better
from cotune.predict.samples import timed
from cotune.probe.measure import Limits
from cotune.run.reasons import last_lines
from cotune.types import Job, Sample
from cotune.units import counted, duration
from cotune.worker.report import as_word

_LAST, _MOST_SHOWN = 3, 120  # lines of a start of which nothing was heard, and letters of each
MOST_LINES = 10_000  # of a log, in which a metric should have shown itself


@dataclass(frozen=True, slots=True, repr=False)
class ProfileOutcome:
    """The samples that a profile added (it is a sequence of them), what was known before, and its limits.

    `tried` are the known ones that the profile went by: those that failed count unless they were to be tried again.
    """

    job: Job
    new: tuple[Sample, ...]
    known: tuple[Sample, ...]
    tried: tuple[Sample, ...]
    limits: Limits

    def __repr__(self) -> str:
        return f"<ProfileOutcome {self.job.name}: {counted(len(self.new), 'new sample')}, {len(self.samples)} in all>"

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.new)

    def __len__(self) -> int:
        return len(self.new)

    def __getitem__(self, place: int) -> Sample:
        return self.new[place]

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Return all that was measured of the job so far."""
        return (*self.known, *self.new)

    def require_speed(self) -> None:
        """Raise why a profile told no seconds at all, if it did not."""
        if not timed(self.samples):
            raise self._nothing_learnt()

    def _nothing_learnt(self) -> CotuneError:
        name = self.job.name
        if self.limits.seconds == float("inf"):  # replayed
            most = self.limits.device_seconds
            within = "" if most is None else f" and {most:g} device-seconds"
            return OverBudget(
                f"nothing could be learnt of {name} with {self.limits.samples} starts{within}; "
                "allow a larger budget or more samples",
                remedy="replay",
            )
        failures = [sample for sample in self.new if sample.failed]
        if failures:
            last = failures[-1]
            why = f"{last.failure}{readable(self.job, last)}"
            return EngineError(f"every start of {name} failed: {why}; its logs are in {last.folder}", samples=failures)
        before = [sample for sample in self.tried if sample.failed]
        if not self.new and before:
            why = f"every config of {name} failed before, the last one so: {before[-1].failure}"
            return EngineError(why, remedy="retry_failed")
        tried = f"{counted(len(self.new), 'start')} within {duration(self.limits.seconds)}"
        hint = readable(self.job, self.new[-1]) if self.new else ""
        return OverBudget(f"nothing could be learnt of {name}: {tried}; allow a larger budget{hint}", remedy="budget")


def readable(job: Job, sample: Sample) -> str:
    """Return what would let a start be heard of which nothing was: a pattern for what it printed, or a callback."""
    if sample.curve or sample.epoch_seconds is not None:
        return ""
    try:
        with (Path(sample.folder) / "rank-0.log").open(errors="replace") as log:
            lines = list(islice(log, MOST_LINES))
    except OSError:
        return ""
    named, bare = job.metric != "accuracy", "step" if job.counting.unit == "steps" else "epoch"
    match = suggested(lines, job.metric, bare=bare, named=named)
    if match is None:
        shown = [line[:_MOST_SHOWN] for line in last_lines(Path(sample.folder), 0, _LAST)]
        return f"; its last lines were {', '.join(map(repr, shown))}" if shown and sample.unheard else ""
    if as_word(job.metric) == match.metric:
        return (
            f"; it printed {match.line!r}, which the pattern '{match.pattern}' would read as {match.metric} "
            f"{match.value:g} (`pattern:` in the job file)"
        )
    target = f"{match.metric}{'<=' if better(match.metric) == 'lower' else '>='}LEVEL"
    return (
        f"; it printed {match.line!r}: where {match.metric} is what counts, write pattern: '{match.pattern}' "
        f"and target: {target} in the job file"
    )
