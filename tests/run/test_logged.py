"""Jobs that know nothing of cotune, read by the log files that they write anyway."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cotune.errors import InvalidFile
from cotune.jobfile import settings as job_settings
from cotune.run import launch, monitor
from cotune.run.launch import Launch, Reported
from cotune.run.lease import leased
from cotune.run.local.launch_monitor import LocalLaunch
from cotune.run.local.messages import Program
from cotune.types import Config, Job

from launching import PLAIN, Play, Played  # isort: skip

PATTERN = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)"


def told(played: Played) -> list[tuple[float | None, float | None]]:
    return [(event.epoch, event.accuracy) for event in played.events if isinstance(event, Reported)]


def test_lines_of_a_log_file_are_read_by_the_pattern_also_where_the_file_comes_later(
    play: Play, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "old.txt").write_text("epoch 9 accuracy 0.9\n")
    script = """
        from pathlib import Path
        with Path("logs/new.txt").open("w") as log, Path("logs/old.txt").open("a") as old:
            for epoch in (1, 2):
                print(f"epoch {epoch} accuracy 0.{epoch}", file=log, flush=True)
            print("epoch 3 accuracy 0.3", file=old)
        print("epoch 4 accuracy 0.4 on the terminal")
    """
    played = play(script, command=PLAIN, job=Job("test", pattern=PATTERN, log=("text", "logs/*.txt")))
    assert sorted(told(played)) == [(1, 0.1), (2, 0.2), (3, 0.3)]  # type: ignore[type-var]


def test_a_tools_log_is_read_while_the_job_runs_and_ends_it_at_its_target(play: Play, tmp_path: Path) -> None:
    old = tmp_path / "lightning_logs" / "version_0"
    old.mkdir(parents=True)
    (old / "metrics.csv").write_text("epoch,step,val_accuracy\n0,9,0.99\n")
    script = """
        import signal
        from pathlib import Path
        folder = Path("lightning_logs/version_1")
        folder.mkdir()
        with (folder / "metrics.csv").open("w") as log:
            print("epoch,step,train_loss,val_accuracy", file=log)
            print("0,9,1.0,", "0,9,,0.5", "1,19,,0.8", sep="\\n", file=log)
        signal.pause()
    """
    job = Job("test", metric="val_accuracy", log=("lightning", "lightning_logs"))
    played = play(script, command=PLAIN, job=job, target=0.75, epochs=30)
    assert told(played) == [(1, None), (1, 0.5), (2, 0.8)]
    assert played.ended.outcome == "done"


def test_a_script_that_goes_on_past_its_target_is_ended_at_once_and_read_no_further(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "UNHEARD_SECONDS", 600.0)  # only what it says next can end it
    script = """
        import signal
        print(*(f"epoch {epoch} accuracy 0.{epoch}" for epoch in (1, 2, 3)), sep="\\n", flush=True)
        signal.pause()
    """
    played = play(script, command=PLAIN, job=Job("test", pattern=PATTERN), target=0.2, epochs=30)
    assert told(played) == [(1, 0.1), (2, 0.2)]
    assert (played.ended.outcome, played.ended.failure) == ("done", None)


@pytest.mark.parametrize(
    ("lines", "epochs"),
    [
        (("epoch 00 accuracy 61.2", "epoch 01 accuracy 70"), [1, 2]),
        (("epoch 0.00 accuracy 61.2", "epoch 0.50 accuracy 70"), [0, 0.5]),
        (("epoch 1 accuracy 61.2", "epoch 2 accuracy 70"), [1, 2]),
    ],
)
def test_a_script_that_counts_epochs_from_0_has_done_one_when_it_tells_of_0(
    play: Play, lines: tuple[str, ...], epochs: list[float]
) -> None:
    job = Job("test", pattern=r"epoch (?P<epoch>[\d.]+) accuracy (?P<accuracy>\S+)")
    played = play(f"print(*{lines!r}, sep='\\n')", command=PLAIN, job=job)
    assert [epoch for epoch, _ in told(played)] == epochs
    assert (monitor.COUNTS_FROM_ZERO in (played.ended.warning or "")) == lines[0].startswith("epoch 00")


@pytest.mark.parametrize("first", [0, 1])
def test_an_evaluation_on_a_line_of_its_own_belongs_to_the_last_count_before_it(play: Play, first: int) -> None:
    script = f"""
        print("Test set: Accuracy: 10/100 (10%)")
        for epoch in range({first}, {first} + 3):
            for step in range(0, 300, 100):
                print(f"Train Epoch: {{epoch}} [{{step}}/300 ({{step // 3}}%)]\\tLoss: 0.5")
            print(f"\\nTest set: Average loss: 0.1, Accuracy: {{60 + epoch}}/100 ({{60 + epoch}}%)\\n")
    """
    job = Job("test", pattern=r"Epoch: (?P<epoch>\d+)|Test set: .*Accuracy: \d+/\d+ \((?P<accuracy>[\d.]+)%")
    played = play(script, command=PLAIN, job=job)
    assert told(played) == [(epoch, 59 + first + epoch) for epoch in (1, 2, 3)], "the first is told before any count"
    assert (monitor.COUNTS_FROM_ZERO in (played.ended.warning or "")) == (first == 0)


@pytest.mark.parametrize("first", [0, 1])
def test_a_script_that_goes_on_counts_as_it_did_before(play: Play, first: int) -> None:
    job = Job("test", pattern=r"epoch (?P<epoch>[\d.]+) accuracy (?P<accuracy>\S+)")
    play(f"print('epoch {first} accuracy 1')", command=PLAIN, job=job)
    again = play("print('epoch 5 accuracy 2')", command=PLAIN, job=job, resume=True)
    assert told(again) == [(6 - first, 2)]


def test_a_line_counts_as_of_when_it_was_printed_and_not_when_it_was_read(tmp_path: Path) -> None:
    log, now = tmp_path / "rank-0.log", time.time()
    launch = LocalLaunch(
        launch=Launch("a", Job("test", pattern=PATTERN), Config.data_parallel(8, 1), 2, tmp_path),
        lease=leased(tmp_path),
        program=Program("script", "train.py", ()),
        temporary=tmp_path,
        cores=[],
        gpus=[],
        ports=[],
        on_nodes=[],
        memory_kills=0,
        started=True,
        begun=50.0,
    )
    times = []
    for epoch, age in ((1, 20.0), (2, 30.0), (3, 10.0), (4, -5.0), (5, 60.0)):
        with log.open("a") as file:
            file.write(f"epoch {epoch} accuracy 0.5\n")
        os.utime(log, (now - age, now - age))
        times += [said.at for said in launch.hear(100.0)]
    assert times == pytest.approx([80.0, 80.0, 90.0, 100.0, 100.0], abs=2.0)
    assert times[0] == times[1], "time does not run backwards"
    assert times[-1] == 100.0, "none was printed before the job began"


def test_event_files_tell_when_things_happened(play: Play, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'cotune[tensorboard]'")
    script = """
        import time
        from torch.utils.tensorboard import SummaryWriter
        with SummaryWriter("runs") as writer:
            for epoch in (1, 2, 3):
                time.sleep(0.05)
                writer.add_scalar("accuracy", epoch / 10, epoch * 16)
    """
    played = play(script, job=Job("test", examples=64, log=("tensorboard", "runs")))
    assert [epoch for epoch, _ in told(played)] == [1, 2, 3]
    times = [event.at for event in played.events if isinstance(event, Reported)]
    assert 0.04 < times[1] - times[0] < 5
    assert 0.04 < times[2] - times[1] < 5


def test_a_log_that_never_came_is_told_at_the_end(play: Play) -> None:
    played = play("", command=PLAIN, job=Job("test", log=("lightning", "nowhere")))
    assert played.ended.outcome == "done"
    assert "its log told nothing: no file or folder" in str(played.ended.warning)


def test_a_log_whose_steps_are_no_epochs_is_a_failure_that_says_so(play: Play) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'cotune[tensorboard]'")
    script = """
        from torch.utils.tensorboard import SummaryWriter
        with SummaryWriter("runs") as writer:
            writer.add_scalar("accuracy", 0.5, 16)
    """
    played = play(script, job=Job("test", log=("tensorboard", "runs")))
    assert played.ended.outcome == "failed"
    assert "logged no epoch: say how many examples" in str(played.ended.failure)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("log: a.txt", "log: its lines are read by a `pattern`"),
        ("log: {tensorbord: runs}", "no tool 'tensorbord' .* did you mean 'tensorboard'"),
        ("log: {tensorboard: a, mlflow: b}", "expected one tool and its path, not tensorboard, mlflow"),
    ],
)
def test_a_wrong_log_in_a_job_file_is_explained(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=words):
        job_settings.loads(text, {}, "x", tmp_path)


def test_a_job_file_names_a_log(tmp_path: Path) -> None:
    assert job_settings.loads("log: {tensorboard: runs}", {}, "x", tmp_path).job.log == ("tensorboard", "runs")
    plain = job_settings.loads(f"log: logs/*.txt\npattern: '{PATTERN}'", {}, "x", tmp_path)
    assert plain.job.log == ("text", "logs/*.txt")
