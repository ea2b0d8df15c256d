"""The processes that plan and measure jobs for the service: one that plans, and one or a few that measure.

While a job is measured the policy has fewer units of each type that the job may have, so that its probes are
not slowed by the others' work. To plan by samples that there are takes none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotune.cluster.service.device_types import types_of
from cotune.cluster.service.queued import QueuedJob
from cotune.run.tail import Tail
from cotune.safety import private
from cotune.store import rows
from cotune.store.location import RUNS, work_folder
from cotune.types import Cluster

LOG = "profile.log"
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Preparer:
    """A process that prepares a job, and the units of each type that it may measure on; none where it only plans."""

    job: QueuedJob
    process: subprocess.Popen[bytes]
    units: Mapping[str, int]
    log: Tail  # of what it writes

    def last_words(self) -> str:
        """Return how it ended: its exit status, and the last line that it wrote, if any."""
        written = [line.strip() for line in self.log.lines(last=True)]
        last = next((line for line in reversed(written) if line), "")
        status = f"(status {self.process.returncode})"
        return f"{status}: {last}" if last else f"without a word {status}"


class Preparers:
    """Who is being prepared."""

    def __init__(self, url: str, term: int, at_once: int = 1) -> None:
        self._url, self._term, self._at_once = url, term, at_once
        self._running: dict[str, Preparer] = {}

    @property
    def reserved(self) -> Counter[str]:
        """Return the units of each type that measuring holds."""
        held: Counter[str] = Counter()
        for one in self._running.values():
            held.update(one.units)
        return held

    @property
    def measuring(self) -> list[tuple[str, str, int]]:
        """Return the jobs that are measured, with the types and units that are set aside for each."""
        return [(id, kind, units) for id, one in self._running.items() for kind, units in one.units.items()]

    @property
    def ids(self) -> set[str]:
        return set(self._running)

    @property
    def can_plan(self) -> bool:
        return all(one.units for one in self._running.values())

    @property
    def can_measure(self) -> bool:
        return sum(bool(one.units) for one in self._running.values()) < self._at_once

    def begin(self, job: QueuedJob, cluster: Cluster, units: Mapping[str, int]) -> None:
        """Begin to measure a job on so many units of each type; with none, to plan it by the samples there are."""
        types_of(job.file.settings(), cluster)  # or say why it cannot be served at all
        folder = run_folder(job)
        private.make_folder(folder)
        cluster_text = json.dumps(rows.of_record(cluster))
        command = [
            sys.executable,
            "-m",
            __package__ + ".prepare",
            job.id,
            str(self._term),
            str(min(units.values(), default=0)),
            cluster_text,
        ]
        tail = Tail(folder / LOG)
        with (folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "COTUNE_STORE": self._url},
                cwd=job.file.folder if Path(job.file.folder).is_dir() else None,
                start_new_session=True,
            )
        self._running[job.id] = Preparer(job, process, units, tail)

    def ended(self) -> list[Preparer]:
        """Return the processes that have ended since."""
        over = [one for one in self._running.values() if one.process.poll() is not None]
        for one in over:
            del self._running[one.job.id]
            _close(one)
        return over

    def stop(self, id: str) -> None:
        """End a preparation; its workers end with it."""
        one = self._running.get(id)
        if one is not None:
            one.process.terminate()

    def close(self) -> None:
        """End all of them."""
        for one in self._running.values():
            one.process.terminate()
        for one in self._running.values():
            try:
                one.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            _close(one)
        self._running.clear()


def run_folder(job: QueuedJob) -> Path:
    """Return where the files of a job's starts go: in the folder of its own project."""
    return Path(job.folder) if job.folder else work_folder(Path(job.file.folder)) / RUNS / job.id


def _close(one: Preparer) -> None:
    if one.process.stdin is not None:
        one.process.stdin.close()
