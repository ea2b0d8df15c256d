"""What a launch says while it runs, and what that makes of its end.

What a launch was told to do outweighs how it then ended: a worker that loses its peers
after the target was met, or after a stop, has not failed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from cotune.errors import CotuneError
from cotune.run import Ended, Launch, Reported
from cotune.run._logged import Files, ToolLog
from cotune.run._tail import Tail, from_log, from_report

UNHEARD_GRACE = 0.5  # seconds; a job that does not call cotune.report cannot know that it should stop


class Hearing:
    """The ear of an engine for one launch: its record adds the fields named here."""

    launch: Launch
    report: Tail
    log: Tail | Files
    tool: ToolLog | None
    pattern: re.Pattern[str] | None
    started: bool
    stopped: bool
    target_met: bool
    spoiled: str | None
    unread: int

    def hear(self, now: float, *, last: bool = False) -> Iterator[Reported]:
        """Yield what rank 0 has reported since; note a target that is met and numbers worth nothing.

        A quick job may report before the word of its start is here: that waits.
        """
        if not (self.started or last):
            return
        for said in self._reports(now, last):
            if said.accuracy is not None and not math.isfinite(said.accuracy):
                when = "" if said.epoch is None else f" after epoch {said.epoch:g}"
                self.spoiled = self.spoiled or f"rank 0 reported {self.launch.job.metric} {said.accuracy}{when}"
                continue
            self.target_met = self.target_met or self._meets(said.accuracy)
            yield said

    @property
    def reports_itself(self) -> bool:
        """Say whether the job calls cotune.report, as far as is known, instead of being read."""
        return self.pattern is None and self.tool is None

    def ended(self, at: float, why: str | None, warning: str | None) -> Ended:
        """Return how the launch ended, given why a worker failed, if one did."""
        name, warnings = self.launch.id, [warning, *self._warnings()]
        if self.spoiled:
            return Ended(name, at, "failed", self.spoiled, _joined(warnings))
        if self.target_met:
            return Ended(name, at, "done", None, _joined([*warnings, why]))
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
                found = from_log(self.launch.id, line, self.pattern, now, self.launch.job.metric)
            except ValueError as error:
                self.spoiled = self.spoiled or f"the pattern found no number in {line.strip()[:80]!r}: {error}"
                return
            if found is not None:
                yield found

    def _meets(self, accuracy: float | None) -> bool:
        target, sign = self.launch.target, self.launch.job.sign
        return target is not None and accuracy is not None and sign * accuracy >= sign * target

    def _warnings(self) -> Iterator[str]:
        if self.tool is not None and self.tool.missing:
            yield f"its log told nothing: {self.tool.missing}"
        if self.unread:
            yield f"{self.unread} line{'s' if self.unread > 1 else ''} of the report could not be read"


def _joined(words: list[str | None]) -> str | None:
    return "; ".join(word for word in words if word) or None
