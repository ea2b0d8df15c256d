from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cotune.errors import UsageError
from cotune.predict.learn import forecaster
from cotune.predict.samples import informative
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.local import Local
from cotune.run.launch import Launch, Started
from cotune.run.local.messages import Record
from cotune.run.processes import descendants
from cotune.space import Configs
from cotune.types import Cause, Cluster, Config, Failure, Job, Sample
from left_behind import ours

from launching import Make, Play, until_ended  # isort: skip


# As torch says it; what it adds ends the log of a program that is not ours.
BUSY = (
    "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"
    "CUDA kernel errors might be asynchronously reported at some other API call.\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
HELD = """
import sys
from pathlib import Path
import cotune

tries = Path("tries")
tries.write_text(tries.read_text() + "." if tries.exists() else ".")
if len(tries.read_text()) <= int(sys.argv[1]):
    raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable")
for epoch in range(5):
    cotune.report(epoch=epoch, accuracy=0.1 * epoch)
"""


@pytest.mark.parametrize(
    ("script", "reason", "cause"),
    [
        ("raise ValueError('bad\\nshape')", "rank 0 crashed: ValueError: bad shape (train.py:1)", Cause.JOB),
        ("def broken(:", "rank 0 crashed: SyntaxError: ", Cause.JOB),
        ("import sys; sys.exit(3)", "rank 0 ended with exit code 3", Cause.JOB),
        ("import sys; sys.exit('no data')", "rank 0 ended with exit code 1: no data", Cause.JOB),
        ("import os; print('no', flush=True); os._exit(4)", "rank 0 ended with exit code 4: no", Cause.JOB),
        ("import os; os.kill(os.getpid(), 11)", "rank 0 was ended by SIGSEGV", Cause.JOB),
        ("import os; os.kill(os.getpid(), 9)", "rank 0 was ended by SIGKILL", Cause.OUTSIDE),
        ("raise MemoryError", "out of memory on rank 0: MemoryError", Cause.MEMORY),
        (f"raise RuntimeError({BUSY!r})", "rank 0 crashed: RuntimeError: RuntimeError: CUDA error: ", Cause.BUSY),
        (f"import sys; print({BUSY!r}); sys.exit(1)", "rank 0 ended with exit code 1: RuntimeError: CUDA", Cause.BUSY),
        ("import torch; torch.empty(1 << 60)", "out of memory on rank 0: ", Cause.MEMORY),
        ("raise RuntimeError('CUDA out of memory. Tried')", "out of memory on rank 0: CUDA out of", Cause.MEMORY),
        ("import cotune; cotune.report(epoch=2, accuracy=float('nan'))", "rank 0 reported accuracy nan", Cause.JOB),
    ],
)
def test_a_failure_says_its_reason_and_cause(play: Play, script: str, reason: str, cause: Cause) -> None:
    ended = play(script).ended
    assert ended.outcome == "failed"
    assert ended.failure is not None
    assert ended.failure.words.startswith(reason)
    assert ended.failure.cause is cause


def test_the_log_of_a_crash_shows_the_scripts_own_frames_alone(play: Play) -> None:
    log = play("def main():\n    1 / 0\nmain()\n").log()
    assert log.startswith('Traceback (most recent call last):\n  File "train.py", line 3')
    assert "runpy" not in log
    assert "_worker" not in log


@pytest.mark.parametrize("how", ["raise ValueError('mine')", "os._exit(9)", "os.kill(os.getpid(), 9)"])
def test_one_rank_that_fails_ends_its_peers_and_is_the_one_named(play: Play, how: str) -> None:
    script = f"""
        import os, torch.distributed as dist
        dist.init_process_group("gloo")
        dist.barrier()
        if dist.get_rank() == 1:
            {how}
        dist.barrier()
    """
    ended = play(script, workers=3).ended
    assert ended.outcome == "failed"
    assert str(ended.failure).startswith("rank 1 ")


DIGITS = Job("test", pattern=r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>[\d.]+)")


def test_nan_is_told_where_the_pattern_reads_digits_alone(play: Play) -> None:
    """It was taken for a script that had ended by itself, after its last number."""
    ended = play(
        "print('epoch 1 accuracy 0.5')\nprint('epoch 2 accuracy nan')\nprint('epoch 3 accuracy nan')",
        job=DIGITS,
        epochs=3,
    ).ended
    assert str(ended.failure) == "accuracy was no number from 'epoch 2 accuracy nan' on"


def test_nan_between_evaluations_is_no_failure(play: Play) -> None:
    lines = ("epoch 1 accuracy nan", "epoch 2 accuracy 0.5", "nan is no word of epoch 3")
    assert play("\n".join(f"print({line!r})" for line in lines), job=DIGITS, epochs=3).ended.failure is None


def test_a_pattern_that_finds_no_number_is_a_failure(play: Play) -> None:
    job = Job("test", pattern=r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)")
    ended = play("print('epoch 1 accuracy 98%')", job=job).ended
    assert ended.outcome == "failed"
    assert "98%" in str(ended.failure)


def test_a_pattern_of_several_metrics_must_name_the_one_asked_for(play: Play) -> None:
    pattern = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+) loss (?P<loss>\S+)"
    with pytest.raises(UsageError, match="the pattern names accuracy, loss, not acuracy; did you mean 'accuracy'"):
        play("", job=Job("test", pattern=pattern, metric="acuracy"))


def test_an_abort_after_a_complete_record_is_only_a_warning(play: Play) -> None:
    script = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGABRT)"
    ended = play(script).ended
    assert (ended.outcome, ended.warning) == ("done", "rank 0 ended by SIGABRT after its work was done")


APART = """
    import torch, cotune
    for epoch in range(1, 3):
        cotune.report(epoch=epoch, accuracy=0.5)
"""


def test_a_probe_whose_workers_each_train_alone_fails_and_a_run_says_so(play: Play) -> None:
    probe = play(APART, workers=2, probe_epochs=2.0).ended
    assert probe.failure is not None
    assert probe.failure.cause is Cause.APART
    run = play(APART, workers=2, name="run")
    assert run.ended.outcome == "done"
    assert "2 workers never met" in str(run.ended.warning)
    assert (probe.copies, run.ended.copies) == (True, True)
    assert [record.alone for rank in range(2) if (record := Record.read(run.folder, rank))] == [True, True]


def test_workers_that_may_share_the_work_by_other_means_are_trusted(play: Play) -> None:
    sharing = Job("test", reads=("workers",))
    assert play(APART, job=sharing, workers=2, probe_epochs=2.0).ended.failure is None
    assert play(APART, workers=1, probe_epochs=2.0, name="one").ended.failure is None


def test_a_line_of_the_report_that_cannot_be_read_is_a_warning(play: Play) -> None:
    ended = play("import os; open(os.environ['COTUNE_REPORT'], 'w').write('{torn')").ended
    assert (ended.outcome, ended.warning) == ("done", "1 line of the report could not be read")


def test_a_program_of_another_kind_fails_with_its_exit_code_and_last_line(play: Play) -> None:
    ended = play(command=("/bin/sh", "-c", "echo no such device; exit 7")).ended
    assert ended.failure == Failure("rank 0 ended with exit code 7: no such device")


def test_a_module_that_another_interpreter_lacks_is_said_with_both_interpreters(play: Play) -> None:
    ended = play("import no_such_module", command=(sys.executable, "-S", "train.py")).ended
    expected = f"No module named 'no_such_module' (in {sys.executable}; cotune itself runs in {sys.executable})"
    assert str(ended.failure).endswith(expected)


def test_a_process_the_script_leaves_behind_ends_with_its_launch(play: Play, tmp_path: Path) -> None:
    script = """
        import os, subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
        print(os.readlink(f"/proc/{child.pid}/ns/pid"))
    """
    played = play(script)
    assert played.ended.outcome == "done"
    left = [command for command in ours(set(descendants(os.getpid()))).values() if "signal.pause()" in command]
    assert left == []


@pytest.mark.parametrize("isolate", [True, False])
def test_after_its_server_was_killed_an_engine_says_so_and_starts_another(
    launch: Callable[..., Launch], isolate: bool
) -> None:
    engine = Local(isolate=isolate)
    try:
        engine.start(launch("import signal; signal.pause()", name="doomed"))

        def kill_all(event: object) -> None:
            if isinstance(event, Started):
                assert engine._server is not None
                os.kill(engine._server._keeper.pid, signal.SIGKILL)

        ended = until_ended(engine, "doomed", kill_all)[-1]
        assert ended.outcome == "failed"  # type: ignore[union-attr]
        assert "the engine's server ended" in str(ended.failure)  # type: ignore[union-attr]
        engine.start(launch("print('again')", name="again", command=(sys.executable, "train.py")))
        assert until_ended(engine, "again")[-1].outcome == "done"  # type: ignore[union-attr]
        assert engine._server is not None
        engine._server._keeper.kill()  # while nothing runs, so that nobody hears of it
        engine._server._keeper.wait()
        engine.start(launch("print('once more')", name="third", command=(sys.executable, "train.py")))
        assert until_ended(engine, "third")[-1].outcome == "done"  # type: ignore[union-attr]
    finally:
        engine.close()


def test_a_stopped_worker_has_a_record_too(local: Local, play: Play) -> None:
    def stop(event: object) -> None:
        if isinstance(event, Started):
            local.stop("launch", grace=0)

    played = play("import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: signal.pause()", each=stop)
    record = Record.read(played.folder, 0)
    assert record is not None
    assert record.status == "killed"


@pytest.mark.parametrize(("times", "started"), [(1, 2), (2, 2)])
def test_a_start_whose_device_is_still_another_s_is_begun_again_once(
    local: Local, launch: Make, tmp_path: Path, times: int, started: int
) -> None:
    made = launch(HELD, command=(sys.executable, "train.py", str(times)))
    (*_, sample) = attempt(local, made, StopRule(), Sample(made.config, id=made.id, folder=str(made.folder)))
    assert len((Path(made.job.folder) / "tries").read_text()) == started
    if times == started:
        assert sample.refused
        other = Sample(Config.data_parallel(8, 1), 1.0, 1.0)
        assert informative([other, sample]) == (other,), "the next profile tries its config"
        plans = forecaster(made.job, [other, sample], Cluster(), accuracy=None)(Configs.of([made.config]), 1)
        assert np.isfinite(plans.epoch_seconds[0])
        return
    assert sample.failure is None
    assert sample.epochs == 4
    assert "as its device was still busy" in (sample.warning or "")
    assert (sample.terms.engine or 0.0) < sample.seconds - 1.0, "what was lost is no part of the engine's start"
