"""Who keeps the books of live jobs: told before anything is started or stopped, and free to refuse a start."""

from __future__ import annotations

from enum import Enum

from cotune.cluster.live_job import LiveJob
from cotune.errors import CotuneError
from cotune.types import Config, Failure


class Withdrawn(CotuneError):
    """A job that may not be started: somebody has cancelled or held it meanwhile."""


class AfterLoss(Enum):
    """What becomes of a job that has lost workers."""

    FAILS = "fails"
    STARTS = "starts"  # again at once, as it was
    WAITS = "waits"  # for the policy to decide: the cluster is smaller


class Journal:
    """What is noted of live jobs; this one keeps no books, and a job that loses a worker has failed."""

    def starting(self, job: LiveJob, config: Config) -> int | None:  # noqa: ARG002
        """Note a start; return its fencing number, or raise where it may not be."""
        return None

    def stopping(self, job: LiveJob, words: str) -> None:
        """Note that a job is asked to come to a checkpoint."""

    def stopped(self, job: LiveJob) -> None:
        """Note that nothing of a job runs any more, and that it may be started again."""

    def lost(self, job: LiveJob, failure: Failure) -> AfterLoss:  # noqa: ARG002
        """Note that workers were lost; say what becomes of the job."""
        return AfterLoss.FAILS
