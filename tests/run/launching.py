"""Following a real launch: its events until the end, the files and the processes it left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cotune.run.launch import Ended, Engine, Event, Launch, Reported, Started
from cotune.run.local.messages import Record
from cotune.types import Failure
from left_behind import bearing

PATIENCE = 60.0
# Options to the interpreter itself: it is started anew, and nothing imports torch in vain.
PLAIN = (sys.executable, "-X", "utf8", "train.py")


class Played:
    """The events of one launch, and the files it left."""

    def __init__(self, folder: Path, events: list[Event]) -> None:
        self.folder = folder
        self.events = events

    @property
    def ended(self) -> Ended:
        last = self.events[-1]
        assert isinstance(last, Ended), self.events
        return last

    def log(self, rank: int = 0) -> str:
        return (self.folder / f"rank-{rank}.log").read_text()


TRAINS = """
    import os, sys, torch, torch.distributed as dist, cotune
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    data = torch.randn(64, 4)
    for epoch in range(1, 4):
        for batch in data.split(int(os.environ["COTUNE_BATCH_SIZE"])):
            optimizer.zero_grad()
            (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        cotune.report(epoch=epoch, accuracy=1 - float((weights[:4] - 1).abs().max()))
    print("weights", *weights.tolist())
    names = ("GROUP_RANK", "GROUP_WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    print(*(os.environ[name] for name in names), *sys.argv[1:])
"""


def trained_together(played: Played) -> list[str]:
    """Check that two workers have trained TRAINS as one; return what each said of its place in the group."""
    assert [type(event) for event in played.events] == [Started, Reported, Reported, Reported, Ended]
    assert (played.ended.outcome, played.ended.failure, played.ended.warning) == ("done", None, None)
    logs = [played.log(rank).splitlines() for rank in range(2)]
    assert logs[0][0] == logs[1][0], "the two replicas must hold the same weights"
    reports = [event for event in played.events if isinstance(event, Reported)]
    assert [said.epoch for said in reports] == [1, 2, 3]
    assert reports[-1].accuracy > reports[0].accuracy  # type: ignore[operator]
    assert played.events[0].at <= reports[0].at <= reports[-1].at <= played.ended.at
    assert (played.ended.peak_bytes or 0) > 10 << 20, "the memory of the worker that took the most"
    assert all(Record.read(played.folder, rank).status == "done" for rank in range(2))  # type: ignore[union-attr]
    return [log[1] for log in logs]


class EngineTests:
    """What every engine of processes does with launches; give fixtures `engine` and `play_on`."""

    @pytest.fixture(autouse=True)
    def nothing_left(self, tmp_path: Path) -> Iterator[None]:
        yield
        assert workers_of(tmp_path) == []

    def test_a_crash_on_one_rank_ends_a_peer_that_would_wait_for_ever(self, play_on: Play) -> None:
        script = """
            import os, signal
            assert os.environ["RANK"] == "0", "no such data"
            signal.pause()
        """
        played = play_on(script, workers=2, command=PLAIN)
        assert played.ended.failure == Failure("rank 1 ended with exit code 1: AssertionError: no such data")

    def test_one_rank_that_is_killed_ends_its_peers_and_is_the_one_named(self, play_on: Play) -> None:
        script = """
            import os, signal
            os.environ["RANK"] == "0" or os.kill(os.getpid(), 9)
            signal.pause()
        """
        played = play_on(script, workers=2, command=PLAIN)
        assert played.ended.outcome == "failed"
        assert str(played.ended.failure).startswith("rank 1 was ended by SIGKILL")

    def test_a_run_that_does_not_end_after_its_target_is_ended(self, play_on: Play) -> None:
        script = "import cotune, time; cotune.report(epoch=1, accuracy=0.3); time.sleep(600)"
        played = play_on(script, target=0.3, command=PLAIN, stop_grace=0.5)
        assert (played.ended.outcome, "stop_grace" in str(played.ended.failure)) == ("failed", True)

    def test_a_worthless_number_ends_a_script_that_would_go_on(self, play_on: Play) -> None:
        script = "import cotune, signal; cotune.report(epoch=1, accuracy=float('inf')); signal.pause()"
        failure = play_on(script, command=PLAIN).ended.failure
        assert failure == Failure("rank 0 reported accuracy inf after epoch 1")

    def test_stop_lets_a_script_that_asks_finish_and_ends_one_that_hangs(self, engine: Engine, play_on: Play) -> None:
        asked, hanging = stopped(engine, play_on)
        assert asked.ended.outcome == "stopped"
        assert (asked.folder / "checkpoint" / "last").exists()
        assert (hanging.ended.outcome, hanging.ended.failure, hanging.ended.warning) == ("stopped", None, None)


Make = Callable[..., Launch]
Play = Callable[..., Played]


def player(engine: Engine, launch: Make) -> Play:
    """Return a function that runs a launch on an engine to its end."""

    def play(*args: object, each: Callable[[Event], None] = lambda _: None, **kwargs: object) -> Played:
        made = launch(*args, **kwargs)
        engine.start(made)
        return Played(made.folder, until_ended(engine, made.id, each))

    return play


def until_ended(engine: Engine, launch: str, each: Callable[[Event], None] = lambda _: None) -> list[Event]:
    """Return the events of a launch up to its end."""
    events: list[Event] = []
    while not (events and isinstance(events[-1], Ended)):
        event = engine.wait(PATIENCE)
        assert event is not None, f"nothing happened for {PATIENCE} s after {events}"
        if event.launch == launch:
            events.append(event)
            each(event)
    return events


def workers_of(folder: Path) -> list[int]:
    """Return the processes on this machine that work for a launch, wherever they hang."""
    return bearing(str(folder))


def stopped(engine: Engine, play: Play) -> tuple[Played, Played]:
    """Return what becomes of a script that asks whether to stop, and of two that hear nothing, when they shall."""
    asks = """
        import cotune, os, pathlib, time
        epoch = 0
        while not cotune.report(epoch=(epoch := epoch + 1), accuracy=0.1):
            time.sleep(0.01)
        (pathlib.Path(os.environ["COTUNE_CHECKPOINT"]) / "last").write_text(str(epoch))
    """
    hangs = "import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: signal.pause()"

    def stop(event: Event) -> None:
        if isinstance(event, Reported):
            engine.stop("asks", grace=30)

    def end(event: Event) -> None:
        if isinstance(event, Started):
            engine.stop("hangs", grace=0)

    return (
        play(asks, name="asks", each=stop, command=PLAIN),
        play(hangs, workers=2, name="hangs", each=end, command=PLAIN),
    )
