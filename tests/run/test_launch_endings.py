"""How a training ends after its last report: well, by a crash, too late to save, or sooner than it was asked to."""

from __future__ import annotations

import pytest

from cotune.run.launch import Reported
from cotune.types import Failure, Job

from launching import PLAIN, Play  # isort: skip
import sys
from pathlib import Path

from cotune.run.launch import Launch
from cotune.run.lease import leased
from cotune.run.local.messages import Program, Record
from cotune.run.remote import RemoteLaunch
from cotune.types import Cause, Config

CRASHES = [("raise RuntimeError('disk full')", "disk full"), ("import sys; sys.exit(3)", "exit code 3")]


def told_to_stop(local: object, name: str = "launch", grace: float = 30.0) -> object:
    def stop(event: object) -> None:
        if isinstance(event, Reported):
            local.stop(name, grace=grace)  # type: ignore[attr-defined]

    return stop


@pytest.mark.parametrize(("end", "words"), CRASHES)
def test_a_crash_after_the_last_epoch_is_a_failure(play: Play, local: object, end: str, words: str) -> None:
    script = f"""
        import cotune, os, time
        cotune.report(epoch=1, accuracy=0.9)
        while not os.path.exists(os.environ["COTUNE_STOP"]):
            time.sleep(0.01)
        {end}
    """
    played = play(script, command=PLAIN, each=told_to_stop(local))
    assert (played.ended.outcome, words in str(played.ended.failure)) == ("failed", True)


@pytest.mark.parametrize(("end", "words"), CRASHES)
def test_a_crash_after_the_target_is_met_is_a_failure(play: Play, end: str, words: str) -> None:
    script = f"""
        import cotune
        assert cotune.report(epoch=1, accuracy=0.9)
        {end}
    """
    played = play(script, command=PLAIN, target=0.5, epochs=30)
    assert (played.ended.outcome, words in str(played.ended.failure)) == ("failed", True)


def test_a_worker_that_loses_its_peers_after_rank_0_has_finished_has_not_failed(play: Play) -> None:
    script = """
        import cotune, os, time
        cotune.report(epoch=1, accuracy=0.9)
        if os.environ["RANK"] == "1":
            while not os.path.exists("rank 0 is done"):
                time.sleep(0.01)
            time.sleep(0.2)
            raise ConnectionError("connection closed by peer")
        import atexit
        atexit.register(lambda: open("rank 0 is done", "w").close())
    """
    played = play(script, workers=2, target=0.5, command=PLAIN)
    assert (played.ended.outcome, played.ended.failure) == ("done", None)
    assert "connection closed by peer" in (played.ended.warning or "")


def test_a_probe_that_is_stopped_half_way_may_end_as_it_likes(play: Play, local: object) -> None:
    script = """
        import cotune, time
        while not cotune.report(epoch=1, accuracy=0.1):
            time.sleep(0.01)
        print(never_defined)
    """
    played = play(script, command=PLAIN, each=told_to_stop(local), epochs=30, probe_epochs=1.0)
    assert (played.ended.outcome, played.ended.failure) == ("stopped", None)
    assert "never_defined" in (played.ended.warning or "")


def test_a_script_that_saves_after_its_target_is_waited_for(play: Play) -> None:
    script = """
        import cotune, os, time
        assert cotune.report(epoch=1, accuracy=0.9)
        time.sleep(1.5)
        open(os.path.join(os.environ["COTUNE_CHECKPOINT"], "model"), "w").close()
    """
    played = play(script, command=PLAIN, target=0.5, epochs=30)
    assert (played.ended.outcome, played.ended.failure) == ("done", None)
    assert (played.folder / "checkpoint" / "model").exists()


@pytest.mark.parametrize(
    "script", ["cotune.report(epoch=1, accuracy=0.9)", "print('epoch 1 accuracy 0.9', flush=True)"]
)
def test_a_script_that_is_ended_while_it_saves_has_failed_to_save(play: Play, script: str) -> None:
    pattern = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)" if "print" in script else None
    played = play(
        f"import cotune, signal; {script}; signal.pause()",
        command=PLAIN,
        target=0.5,
        stop_grace=0.3,
        job=Job("test", pattern=pattern),
    )
    assert played.ended.failure == Failure(
        "its target was met, but it did not end within 0.3 s and was ended: what it saves at its end may be missing; "
        "allow it more time with stop_grace"
    )


def test_a_script_that_saves_when_it_is_ended_has_not_failed(play: Play) -> None:
    script = """
        import cotune, signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        cotune.report(epoch=1, accuracy=0.9)
        signal.pause()
    """
    played = play(script, command=PLAIN, target=0.5, stop_grace=0.3)
    assert (played.ended.outcome, played.ended.failure) == ("done", None)


def test_a_script_that_trains_on_past_its_target_is_ended_and_warned_of(play: Play) -> None:
    script = """
        import cotune, time
        for epoch in range(1, 10_000):
            cotune.report(epoch=epoch, accuracy=0.9)
            time.sleep(0.01)
    """
    played = play(script, command=PLAIN, target=0.5, epochs=10_000)
    assert (played.ended.outcome, played.ended.failure) == ("done", None)
    assert "trained on" in (played.ended.warning or "")


def test_peers_that_hang_after_rank_0_has_finished_are_ended_soon(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotune.run.monitor.PEER_SECONDS", 0.2)
    script = """
        import cotune, os, signal
        cotune.report(epoch=1, accuracy=0.9)
        if os.environ["RANK"] == "1":
            signal.pause()
    """
    played = play(script, workers=2, target=0.5)
    assert (played.ended.outcome, played.ended.failure) == ("done", None)


def test_no_target_is_met_by_a_number_of_another_name(play: Play) -> None:
    job = Job("test", metric="loss", better="lower")
    script = """
        import cotune
        assert not cotune.report(epoch=1, accuracy=0.1)
        assert not cotune.report(epoch=2, accuracy=0.2, loss=0.9)
        assert cotune.report(epoch=3, accuracy=0.9, loss=0.2)
    """
    played = play(script, command=PLAIN, job=job, target=0.3, epochs=30)
    told = [event.accuracy for event in played.events if isinstance(event, Reported)]
    assert (told, played.ended.outcome) == ([None, 0.9, 0.2], "done")


def test_a_script_that_never_tells_its_metric_is_told_so(play: Play) -> None:
    job = Job("test", metric="loss", better="lower")
    played = play("import cotune; cotune.report(epoch=1, accuracy=0.1)", command=PLAIN, job=job, target=0.3)
    assert played.ended.warning == "it told accuracy, but never loss: cotune.report(epoch=..., loss=...)"


def test_a_pattern_that_reads_the_loss_as_accuracy_is_a_failure_and_not_a_target_met(play: Play) -> None:
    job = Job("test", pattern=r"'loss': (?P<accuracy>[\d.]+).*'epoch': (?P<epoch>[\d.]+)")
    line = "{'loss': 0.93, 'grad_norm': 1.5, 'epoch': 1.0}"
    played = play(f'print("{line}", flush=True); import signal; signal.pause()', command=PLAIN, job=job, target=0.9)
    assert played.ended.outcome == "failed"
    assert "reads 'loss' as accuracy" in str(played.ended.failure)


@pytest.mark.parametrize(
    ("alone", "cause"),
    [((True, True), Cause.APART), ((False, False), None), ((True, None), None), ((True,), None), ((None, None), None)],
)
def test_workers_that_never_met_are_noticed_by_their_records(
    tmp_path: Path, alone: tuple[bool | None, ...], cause: Cause | None
) -> None:
    job = Job("made-up", (sys.executable, "train.py"), folder=str(tmp_path))
    launch = Launch("a", job, Config.data_parallel(8, 2), 2, tmp_path / "run", probe_epochs=2.0)
    monitor = RemoteLaunch.of(launch, Program("script", "train.py", ()), 0.0, leased(launch.folder))
    (monitor.folder / "rank-0.jsonl").write_text('{"at": 1.0, "epoch": 1.0, "accuracy": 0.5}\n')
    for rank, told in enumerate(alone):
        Record("done", 0, 0.0, 1.0, alone=told).write(monitor.folder, rank)
    list(monitor.look(2.0))
    list(monitor.hear(2.0, last=True))
    failure = monitor.ended(2.0, None, None).failure
    assert (failure.cause if failure else None) == cause
