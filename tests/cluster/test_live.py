"""Jobs under a policy on an engine: the loop of a simulation, on the clock of what really runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from cotune import registry
from cotune.checkpoints import CHECKPOINT
from cotune.cluster.loop import Changes, drive
from cotune.cluster.node_packing import Count
from cotune.cluster.service.live import LiveWorld
from cotune.cluster.service.live_job import LiveJob
from cotune.cluster.service.planned_job import PlannedJob
from cotune.recording import Recording, read
from cotune.run.engines.recorded import Recorded
from cotune.run.launch import Event, Launch, Started
from cotune.space import Configs
from cotune.types import STOP_GRACE, Cluster, Config, Device, Goal, Job, Sample
from lab.worlds import world as recorded_world

EPOCHS = 6


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return read(recorded_world(tmp_path_factory.mktemp("serve") / "world"))


@pytest.fixture(scope="module")
def with_servers(recording: Recording) -> Recording:
    """Return the same with rows of one parameter server, which takes a tenth longer."""
    ((layout, cells),) = recording.times.items()
    device, accumulate, _, axes = layout
    longer = {w: {b: tuple(1.1 * each for each in repeats) for b, repeats in by.items()} for w, by in cells.items()}
    return replace(recording, times={layout: cells, (device, accumulate, 1, axes): longer})


class Hall:
    """A queue of jobs on one recording, and all that came of it."""

    def __init__(self, recording: Recording, slots: int, folder: Path) -> None:
        self.recording, self.folder, self.waiting = recording, folder, list[tuple[float, LiveJob]]()
        self.device = recording.cluster.devices[0].name
        self.cluster = Cluster((Device(self.device, slots),))
        self.kept: list[Sample] = []
        self.decisions: list[Changes] = []

    def submit(
        self,
        name: str,
        at: float,
        workers: int,
        *,
        epochs: int = EPOCHS,
        deadline: float | None = None,
        batches: tuple[int, ...] = (16,),
        servers: tuple[int, ...] = (0,),
        goal: Goal | None = None,
        silence: float | None = None,
    ) -> None:
        """Submit a job that knows its seconds; it may take one or two workers, or those it wants."""
        configs = [
            Config.data_parallel(batch, count, self.device, servers=several)
            for batch, several in product(batches, servers)
            for count in {1, 2, workers}
        ]
        seconds = {config: epochs * self.pace(config) for config in configs}
        wants = Config.data_parallel(batches[0], workers, self.device, servers=servers[0])
        needed = {config.global_batch: float(epochs) for config in configs}
        planned = PlannedJob(
            self.recording.job, goal or Goal(epochs=epochs), self.cluster, "recorded", {}, silence, STOP_GRACE, wants,
            seconds, needed, interval=(seconds[wants],) * 3, forecast={},
        )  # fmt: skip
        due = None if deadline is None else at + deadline
        submission = planned.submission(name, submit=at, deadline=due, cluster=self.cluster)
        checkpoint = self.folder / name / CHECKPOINT / "weights"  # else a replayed start has none to resume from
        checkpoint.parent.mkdir(parents=True)
        checkpoint.touch()
        self.waiting.append((at, LiveJob.arriving(planned, submission, self.folder / name)))

    def pace(self, config: Config) -> float:
        return float(self.recording.epoch_seconds(Configs.of([config]))[0])

    def arrivals(self, now: float) -> list[LiveJob] | None:
        due = [job for at, job in self.waiting if at <= now]
        self.waiting = [(at, job) for at, job in self.waiting if at > now]
        return due if due or self.waiting else None

    def run(self, policy: str, engine: Recorded | None = None) -> LiveWorld:
        world = LiveWorld(engine or Recorded(recording=self.recording), self.arrivals, self._keep)
        for _ in drive(registry.create("policy", policy), self.cluster, world, Count(), self.decisions.append):
            pass
        return world

    def _keep(self, _: Job, sample: Sample) -> None:
        self.kept.append(sample)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "joint", "elasticflow", "optimus", "las"])
def test_every_job_is_run_to_its_end_on_no_more_workers_than_there_are(
    recording: Recording, policy: str, tmp_path: Path
) -> None:
    hall = Hall(recording, 2, tmp_path)
    for number in range(4):
        hall.submit(f"job{number}", 10.0 * number, 1 + number % 2)
    served = hall.run(policy).jobs.values()
    assert [one.failure for one in served] == [None] * 4
    assert [one.starts[-1].epochs for one in served] == [EPOCHS] * 4
    assert {sample.id for one in served for sample in one.starts} == {sample.id for sample in hall.kept}
    for decision in hall.decisions:
        held = sum(active.held for active in decision.starts)
        assert held <= 2


@pytest.mark.parametrize("policy", registry.names("policy"))
def test_every_policy_serves_jobs_of_two_batch_sizes_with_and_without_servers(
    with_servers: Recording, policy: str, tmp_path: Path
) -> None:
    hall = Hall(with_servers, 4, tmp_path)
    for number, servers in enumerate(((0, 1), (1, 0), (0, 1), (1, 0))):
        hall.submit(f"job{number}", 10.0 * number, 1 + number % 2, batches=(16, 32), servers=servers, deadline=1e6)
    served = hall.run(policy).jobs.values()
    assert [one.failure for one in served] == [None] * 4
    assert [one.starts[-1].epochs for one in served] == [EPOCHS] * 4
    assert all(sum(active.held for active in decision.starts) <= 4 for decision in hall.decisions)


class LateEngine(Recorded):
    """An engine in real time, where every wait ends a hair late."""

    def wait(self, timeout: float) -> Event | None:
        event = super().wait(timeout)
        self._now += 0.003
        return event


@pytest.mark.timeout(60)
@pytest.mark.parametrize("policy", ["optimus(interval=10)", "goodput(interval=10)"])
def test_a_policy_that_decides_in_rounds_does_so_on_a_clock_that_is_a_hair_late(
    recording: Recording, policy: str, tmp_path: Path
) -> None:
    hall = Hall(recording, 2, tmp_path)
    for number in range(3):
        hall.submit(f"job{number}", 7.0 * number, 1)
    served = hall.run(policy, LateEngine(recording=recording)).jobs.values()
    assert [one.starts[-1].epochs for one in served] == [EPOCHS] * 3
    assert {decision.at % 10.0 for decision in hall.decisions} == {0.0}


def test_a_job_that_is_stopped_resumes_where_it_was(recording: Recording, tmp_path: Path) -> None:
    hall = Hall(recording, 1, tmp_path)
    hall.submit("long", 0.0, 1, epochs=EPOCHS)
    whole_of_it = EPOCHS * hall.pace(Config.data_parallel(16, 1, hall.device))
    hall.submit("short", 0.5 * whole_of_it, 1, epochs=1)
    long, short = hall.run("srtf").jobs.values()
    assert [start.epochs for start in short.starts] == [1]
    assert len(long.starts) == 2
    assert 0 < long.starts[0].epochs < EPOCHS
    assert long.starts[1].resumed_from == long.starts[0].id
    assert long.starts[1].epochs == EPOCHS
    together = long.whole
    assert together is not None
    assert together.seconds < 1.4 * whole_of_it, "what was trained is not trained again"
    assert long.active.waited == pytest.approx(short.active.executed, rel=0.2)


def test_a_job_that_wants_the_most_accuracy_goes_on_although_it_had_met_its_target_when_stopped(
    recording: Recording, tmp_path: Path
) -> None:
    hall = Hall(recording, 1, tmp_path)
    hall.submit("long", 0.0, 1, goal=Goal(target=0.0, max_epochs=EPOCHS, prefer="accurate"))
    hall.submit("short", 0.5 * EPOCHS * hall.pace(Config.data_parallel(16, 1, hall.device)), 1, epochs=1)
    long, _ = hall.run("srtf").jobs.values()
    assert [len(long.starts), long.starts[-1].epochs] == [2, EPOCHS]


def test_a_deadline_that_cannot_be_kept_is_declined_and_the_others_run(recording: Recording, tmp_path: Path) -> None:
    hall = Hall(recording, 1, tmp_path)
    hall.submit("first", 0.0, 1, deadline=1e6)
    hall.submit("rushed", 0.0, 1, deadline=1.0)
    first, rushed = hall.run("joint").jobs.values()
    assert (first.active.declined, rushed.active.declined) == (False, True)
    assert first.starts[-1].epochs == EPOCHS
    assert rushed.starts == []


def test_a_job_that_hangs_is_ended_and_gives_its_workers_to_the_next(recording: Recording, tmp_path: Path) -> None:
    class Hanging(Recorded):
        """The first job starts, and never says a word."""

        def wait(self, timeout: float) -> Event | None:
            first = min((entry[2].launch for entry in self._queue), key=self._order.index, default="")
            starting = any(isinstance(entry[2], Started) for entry in self._queue)
            if first == self._order[0] and not self._stopped and not starting:
                self._now += timeout
                return None
            return super().wait(timeout)

        def start(self, launch: Launch) -> None:
            self._order = [*getattr(self, "_order", []), launch.id]
            self._stopped = len(self._order) > 1
            super().start(launch)

        def stop(self, launch: str, grace: float = 5.0) -> None:
            self._stopped = True
            super().stop(launch, grace)

    hall = Hall(recording, 1, tmp_path)
    hall.submit("stuck", 0.0, 1, silence=30.0)
    hall.submit("next", 0.0, 1)
    stuck, after = hall.run("fifo", Hanging(recording=recording)).jobs.values()
    assert stuck.failure is not None
    assert "no report for 30 s" in stuck.failure.words
    assert (after.failure, after.starts[-1].epochs) == (None, EPOCHS)


def test_a_job_that_cannot_start_does_not_stop_the_others(recording: Recording, tmp_path: Path) -> None:
    hall = Hall(recording, 64, tmp_path)
    hall.submit("good", 0.0, 1)
    hall.submit("other", 0.0, 1)
    other = hall.waiting.pop()[1].planned
    beyond = Config.data_parallel(16, 60, hall.device)  # not recorded
    planned = replace(other, wants=beyond, seconds={beyond: 1.0}, needed={beyond.global_batch: 6.0})
    submission = planned.submission("lost", submit=0.0, deadline=None, cluster=hall.cluster)
    hall.waiting.append((0.0, LiveJob.arriving(planned, submission, hall.folder / "lost")))
    good, lost = hall.run("fifo").jobs.values()
    assert good.failure is None
    assert lost.failure is not None
    assert "not recorded" in lost.failure.words
