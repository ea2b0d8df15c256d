"""A launch whose workers run on other machines: all that is known of it stands in its folder.

    rank-N.begun.json   its code began       rank-N.log           what it printed
    rank-N.jsonl        what it reported     rank-N.memory.json   what memory it took
                                             rank-N.result.json   how it ended

Slurm's workers write there themselves; what Ray's write on their nodes is carried there.
Their clocks are not ours, so the times they tell are shifted by what the wall clocks
differ, and held between the start of the launch and now.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, time
from typing import TypeVar

from cotune.errors import EngineError
from cotune.jobfile.pattern import pattern_of
from cotune.run.command import check_servers, fill, numbers, program
from cotune.run.environment import MALLOC, group_env
from cotune.run.host import RELEASED
from cotune.run.launch import Ended, Event, Launch, Reported, Started
from cotune.run.lease import Lease, leased
from cotune.run.local.messages import Group, Program, Record
from cotune.run.monitor import LaunchMonitor
from cotune.run.reasons import aborted, foreign, reason
from cotune.safety.private import make_folder
from cotune.types import Failure

Ready = TypeVar("Ready")
STOP = "stop"
_SETTLE_SECONDS = 1.0  # for the peers of a worker that failed to say whether they failed before it
_LATE_SECONDS = 5.0  # for files to show on a network disk after their job is over
_MARKS = (STOP, RELEASED, "rank-*.json", "slurm.*", "kubeflow.*")


@dataclass(kw_only=True)
class RemoteLaunch(LaunchMonitor):
    """What is known of a launch elsewhere, and what it was told to do."""

    program: Program
    since: float
    warnings: list[str] = field(default_factory=list)
    records: dict[int, Record] = field(default_factory=dict)
    begun: dict[int, float] = field(default_factory=dict)
    shift: float = 0.0
    failures: list[int] = field(default_factory=list)
    failed_at: float | None = None

    @classmethod
    def of(cls, launch: Launch, program: Program, now: float, lease: Lease) -> RemoteLaunch:
        """Clear the launch's folder, which is ours by the lease, of the marks of an earlier start."""
        folder = lease.folder
        pattern_of(launch.job)  # a wrong one is told before anything is removed
        try:
            make_folder(folder)
            (folder / "checkpoint").mkdir(exist_ok=True)
            for old in (path for mark in _MARKS for path in folder.glob(mark)):
                old.unlink(missing_ok=True)
        except OSError as error:
            raise EngineError(f"cannot write to the run's folder {folder}: {error.strerror}") from None
        return cls(launch=launch, lease=lease, program=program, since=now)

    @property
    def workers(self) -> int:
        return self.launch.config.workers

    @property
    def processes(self) -> int:
        """How many there are with the parameter servers, whose ranks count on after the workers'."""
        return self.launch.config.units

    @property
    def all_done(self) -> bool:
        """Say whether all workers are; servers wait for more until they are ended."""
        known = [self.records.get(rank) for rank in range(self.workers)]
        return all(record is not None and record.status == "done" for record in known)

    def look(self, now: float) -> Iterator[Event]:
        """Yield what has happened since the last look."""
        names = set(os.listdir(self.folder))  # noqa: PTH208  # asks a network file system anew, as exists() may not
        for rank in range(self.processes):
            if rank not in self.begun and f"rank-{rank}.begun.json" in names:
                self._began(rank, json.loads((self.folder / f"rank-{rank}.begun.json").read_text()), now)
                if len(self.begun) == self.processes:
                    self.started = True
                    yield Started(self.launch.id, max(self.begun.values()))
            if rank not in self.records and f"rank-{rank}.result.json" in names:
                self._note(rank, now)
        yield from self.hear(now)

    def last_events(self, now: float) -> Iterator[Event]:
        """Yield what is left to hear of a launch that is over."""
        yield from self.look(now)
        yield from self.hear(now, last=True)

    def stop(self, now: float, grace: float) -> None:
        """Ask the workers to end by their stop file; who has not begun, or does not within `grace`, is ended."""
        with contextlib.suppress(OSError):  # on a full disk only the end after `grace` is left
            (self.folder / STOP).touch()
        self.stopped = True
        self.terminate_at = now + (grace if self.begun else 0.0)

    def settled(self, now: float) -> bool:
        """Say whether all workers have ended, or one has failed and its peers have had time to tell why."""
        if all(rank in self.records for rank in range(self.workers)):
            return True
        return self.failed_at is not None and now >= self.failed_at + _SETTLE_SECONDS

    def why(self) -> Failure | None:
        """Return why a worker failed, if one did: one that died in silence explains the errors of its peers."""
        if not self.failures:
            return None
        first = min(self.failures, key=lambda rank: self.records[rank].error is not None)
        return foreign(reason(self.folder, first, 0), self.program)

    @property
    def by_signal(self) -> bool:
        """Say whether all workers that failed were ended by a signal, so that somebody else may know why."""
        return bool(self.failures) and all(self.records[rank].signal is not None for rank in self.failures)

    def abort_warning(self) -> str | None:
        """Return the warning about workers that were done, but then ended by a signal."""
        last = {rank: Record.read(self.folder, rank) for rank in sorted(self.records)}
        signals = {rank: record.signal for rank, record in last.items() if record and record.status == "done"}
        return aborted([(rank, number) for rank, number in signals.items() if number is not None])

    def time_is_up(self, now: float) -> bool:
        """Say whether it is time to end the workers; after a worthless number it is at once."""
        if self.spoiled:
            self._end_by(now)
        return super().time_is_up(now)

    def ended(self, at: float, why: Failure | None, warning: str | None) -> Ended:
        """Return how the launch ended; workers that have all said so were alone."""
        known = [self.records.get(rank) for rank in range(self.workers)]
        self.apart = self.workers > 1 and all(record is not None and record.alone for record in known)
        return super().ended(at, why, warning)

    def is_over(self, mark: str, since: float | None, now: float) -> bool:
        """Say whether nothing of it runs any more: by its mark, or by its scheduler, which has said so `since` then."""
        if (self.folder / mark).exists():
            return True
        all_told = self.terminating or len(self.records) == self.workers
        return since is not None and (all_told or now > since + _LATE_SECONDS)

    def concluded(self, at: float, why: Failure | None) -> Ended:
        """Return how the launch ended, and let others have its folder."""
        ended = self.ended(at, why, self.abort_warning())
        self.lease.release()
        return ended

    def _began(self, rank: int, begun: Mapping[str, float], now: float) -> None:
        there = begun["at"]
        shift = (begun["wall"] - there) - (time() - monotonic())
        self.begun[rank] = min(max(there + shift, self.since), now)
        if rank == 0:
            self.shift = self.begun[rank] - there

    def _note(self, rank: int, now: float) -> None:
        record = Record.read(self.folder, rank)
        assert record is not None
        self.records[rank] = record
        if record.status == "failed" and not self.terminating and not self.all_done:
            self.failures.append(rank)
            self.failed_at = self.failed_at or now

    def _reports(self, now: float, last: bool) -> Iterator[Reported]:
        for said in super()._reports(now, last):
            theirs = said.at != now  # what a pattern found is told by our clock
            yield replace(said, at=min(max(said.at + self.shift, self.since), now)) if theirs else said

    def _warnings(self) -> Iterator[str]:
        yield from super()._warnings()
        yield from self.warnings


@contextmanager
def prepared_launch(
    launch: Launch, term_seconds: float, ready: Callable[[Path], Ready]
) -> Iterator[tuple[Group, RemoteLaunch, Ready]]:
    """Yield what every worker of a launch is told, the launch with its folder cleared, and what `ready` returned.

    What cannot work is said now. `ready` is given the folder before it is waited for that an earlier start there ends.
    Whatever fails, here or while the engine starts the workers, leaves the folder to others.
    """
    lease = leased(launch.folder, launch.fence)
    try:
        group = _group_of(launch, lease, term_seconds)
        made = ready(lease.folder)
        lease.settle()
        yield group, RemoteLaunch.of(launch, group.program, monotonic(), lease), made
    except BaseException:
        lease.release()
        raise


def _group_of(launch: Launch, lease: Lease, term_seconds: float) -> Group:
    job, known = launch.job, numbers(launch)
    cwd, own = Path(job.folder).absolute(), dict(job.env)
    found = program(fill(job.command, known), cwd, {**os.environ, **own}, own)
    check_servers(launch.config, found)
    folder = lease.folder
    told = group_env(launch, known, lease, folder, [0])
    for decided_there in ("GLOO_SOCKET_IFNAME", "MASTER_ADDR", "MASTER_PORT", "TMPDIR", "LOCAL_WORLD_SIZE"):
        told.pop(decided_there, None)
    env = {"PYTHONUNBUFFERED": "1", **MALLOC, **own, **told}
    return Group(launch.id, str(folder), str(cwd), found, env, (), launch.seed, term_seconds)
