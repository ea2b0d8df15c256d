"""Which jobs are measured when, and what is told of those whose measuring comes to nothing."""

from __future__ import annotations

from pathlib import Path

from cotune.cluster.service.device_types import SLOT, alike
from cotune.cluster.service.leadership import Leadership
from cotune.cluster.service.preparers import Preparers
from cotune.cluster.service.preparing import TRIES, Preparing
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import State
from cotune.cluster.service.term import TermQueue
from cotune.store import open_store


def test_a_job_whose_measuring_comes_to_nothing_says_with_which_last_line(
    tmp_path: Path, snapshot: JobSnapshot
) -> None:
    (tmp_path / "elsewhere").mkdir()
    with open_store(str(tmp_path / "store.db")) as store:
        queue, leadership = Queue(store), Leadership(store, {"pid": 1})
        assert leadership.take()
        id = queue.submit(snapshot)
        preparers = Preparers(str(tmp_path / "elsewhere" / "other.db"), leadership.term)
        preparing = Preparing(TermQueue(queue, leadership.term), preparers)
        while not queue.get(id).is_final:
            preparing.go_on(queue.line(states=[State.QUEUED]), alike(2), {SLOT: 2})
        leadership.release()
        job = queue.get(id)
    assert job.state is State.FAILED
    assert job.reason.startswith(f"measuring it ended {TRIES} times (status 1): cotune.errors.NotFound: no job '{id}'")
