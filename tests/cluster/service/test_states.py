"""What a job may become, played at random by clients, leaders and their deaths against a real queue."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from cotune.cluster.service import states
from cotune.cluster.service.leadership import Leadership, NoLongerLeading
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import FINAL, NEXT, IllegalMove, State
from cotune.store import open_store

TEXT = "name: digits\nrun: python train.py {batch_size}\nexamples: 100\nepochs: 2\n"
ENDINGS = [State.MET, State.MISSED, State.DONE, State.FAILED]


class QueueMachine(RuleBasedStateMachine):
    """Clients hand in, hold and cancel; a leader starts, stops and ends jobs; now and then it dies."""

    ids = Bundle("ids")

    @initialize()
    def open(self) -> None:
        self.queue = Queue(open_store(":memory:"))
        self.file = JobSnapshot.written(TEXT, Path.cwd(), "cotune.yaml")[0]
        self.starts: dict[str, list[int]] = {}  # the fencing numbers that were given out
        self.ended: dict[str, State] = {}
        self.elect()

    def elect(self) -> None:
        leadership = Leadership(self.queue.store, {})
        assert leadership.take()
        leadership._over.set()  # it never renews: time stands still here
        self.led = Queue(self.queue.store, leadership.term)

    @rule(target=ids, held=st.booleans())
    def submit(self, held: bool) -> str:
        id = self.queue.submit(self.file, held=held)
        self.starts[id] = []
        return id

    @rule(id=ids, ask=st.sampled_from(["cancel", "hold", "release"]))
    def ask(self, id: str, ask: str) -> None:
        with suppress(IllegalMove):
            getattr(self.queue, ask)(id)

    @rule(id=ids, state=st.sampled_from([State.PROFILING, State.RUNNING]))
    def start(self, id: str, state: State) -> None:
        before = self.queue.get(id)
        try:
            job = self.led.change(id, lambda one: states.begun(one, state), "starts")
        except IllegalMove:
            return
        assert not before.is_final
        assert not before.status.held
        assert not before.status.cancelling
        assert job.status.fence > max(self.starts[id], default=0)
        self.starts[id].append(job.status.fence)

    @rule(id=ids, state=st.sampled_from([State.WAITING, State.STOPPING, State.DECLINED, *ENDINGS]))
    def lead(self, id: str, state: State) -> None:
        with suppress(IllegalMove):
            belief = {"belief": {}} if state is State.WAITING else {}
            self.led.become(id, state, "so it goes", **belief)

    @rule(id=ids)
    def lose_workers(self, id: str) -> None:
        with suppress(IllegalMove):
            before = self.queue.get(id).status.restarts
            job = self.led.change(id, states.lost, "a worker was killed")
            assert (job.state, job.status.restarts) == (State.WAITING, before + 1)

    @rule()
    def the_leader_dies_and_another_takes_over(self) -> None:
        before = self.led
        self.elect()
        for job in self.queue.jobs():
            after = self.led.change(job.id, states.put_back, "found again")
            assert after.state not in states.STARTED
        for job in self.queue.jobs()[:1]:
            try:
                before.become(job.id, State.FAILED, "too late")
            except NoLongerLeading:
                pass
            else:
                raise AssertionError("a leader wrote after its term")

    @invariant()
    def what_is_final_stays_so(self) -> None:
        if not hasattr(self, "queue"):
            return
        jobs = {job.id: job for job in self.queue.jobs()}
        assert set(jobs) == set(self.starts), "none is lost"
        for id, state in self.ended.items():
            assert jobs[id].state is state
        self.ended = {id: job.state for id, job in jobs.items() if job.is_final}

    @invariant()
    def the_events_tell_the_whole_story(self) -> None:
        if not hasattr(self, "queue"):
            return
        for job in self.queue.jobs():
            events = self.queue.events(job.id)
            assert (events[0].state, events[-1].state) == (State.QUEUED, job.state)
            for one, after in pairwise(events):
                assert after.state is one.state or after.state in NEXT[one.state]
                assert after.fence >= one.fence

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.store.close()


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


def test_nothing_leads_out_of_a_final_state() -> None:
    assert {state for state, following in NEXT.items() if not following} == FINAL
    assert [state.value for state in State][-6:] == ["met", "missed", "done", "failed", "declined", "cancelled"]
