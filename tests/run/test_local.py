from __future__ import annotations

import json
import os
import re
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cotune.errors import EngineError, NotFound, UsageError
from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Reported, Started
from cotune.run.local.messages import Record
from cotune.types import Config, Job, LearningRate, axes_of

from launching import EngineTests, Make, Play, Played, until_ended  # isort: skip


DDP = """
    import torch, torch.distributed as dist, cotune

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(1, 3):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        cotune.report(epoch=epoch, accuracy=epoch / 10, loss=1 / epoch, evaluation=0.5)
    weights = [torch.empty(2, 8) for _ in range(dist.get_world_size())]
    dist.all_gather(weights, model.module.weight.detach())
    assert all(torch.equal(weights[0], other) for other in weights)
    print("rank", dist.get_rank(), "of", dist.get_world_size())
"""


@pytest.mark.parametrize("workers", [2, 4])
def test_an_unmodified_ddp_script_trains_and_reports(play: Play, workers: int) -> None:
    played = play(DDP, workers=workers)
    assert isinstance(played.events[0], Started)
    first, second = (event for event in played.events if isinstance(event, Reported))
    assert (first.epoch, first.accuracy, first.metrics) == (1, 0.1, (("loss", 1),))
    assert dict(first.terms) == {"evaluation": 0.5, "input": 0.0}  # it waited for no loader
    assert second.epoch == 2
    assert played.events[0].at <= first.at <= second.at <= played.ended.at
    assert (played.ended.outcome, played.ended.failure) == ("done", None)
    for rank in range(workers):
        assert f"rank {rank} of {workers}" in played.log(rank)
        record = Record.read(played.folder, rank)
        assert record is not None
        assert record.status == "done"
        assert record.started < record.ended
        assert record.alone is False


def test_groups_that_are_alive_when_main_returns_do_not_hang(play: Play) -> None:
    script = """
        import torch.distributed as dist
        def main():
            dist.init_process_group("gloo")
            dist.new_group([0, 1])
            dist.barrier()
        main()
    """
    ended = [play(script, workers=2, name=f"group-{number}").ended for number in range(8)]
    assert [(end.outcome, end.warning) for end in ended] == [("done", None)] * 8


def test_the_private_name_by_which_process_groups_are_held_is_there() -> None:
    import inspect

    from torch.distributed import distributed_c10d

    assert callable(distributed_c10d._new_process_group_helper)
    for maker in (distributed_c10d.init_process_group, distributed_c10d._new_group_with_tag):
        assert "_new_process_group_helper(" in inspect.getsource(maker)


def test_several_launches_run_at_once_on_different_cores(local: Local, launch: Make, tmp_path: Path) -> None:
    script = """
        import os, pathlib, sys, time
        print(sorted(os.sched_getaffinity(0)))
        pathlib.Path(f"here-{os.environ['COTUNE_BATCH_SIZE']}").touch()
        until = time.monotonic() + 60
        while len(list(pathlib.Path(".").glob("here-*"))) < 2 and time.monotonic() < until:
            pass
        assert time.monotonic() < until
    """
    halves = Local(slices=2)
    try:
        launches = [launch(script, name=f"at-once-{size}", batch_size=size) for size in (8, 16)]
        for made in launches:
            halves.start(made)
        ends: dict[str, Ended] = {}
        while len(ends) < 2:
            event = halves.wait(30)
            assert event is not None
            if isinstance(event, Ended):
                ends[event.launch] = event
        assert {end.outcome for end in ends.values()} == {"done"}
        first, second = (json.loads((made.folder / "rank-0.log").read_text()) for made in launches)
        if len(os.sched_getaffinity(0)) > 1:
            assert not set(first) & set(second)
    finally:
        halves.close()


def test_a_worker_finds_who_it_is_and_what_it_is_told(play: Play) -> None:
    script = """
        import json, os, sys, tempfile, torch
        here = dict(os.environ, argv=sys.argv, path=sys.path[0], cwd=os.getcwd(), temporary=tempfile.gettempdir(),
                    main=sys.modules["__main__"].__file__, threads=torch.get_num_threads())
        open(f"seen-{os.environ['RANK']}.json", "w").write(json.dumps(here))
    """
    command = (sys.executable, "-u", "train.py", "--b={batch_size}", "--amp", "{amp}", "{lr}", '{{"a": {epochs}}}')
    job = Job("test", lr=LearningRate(0.1, 8), env=(("GREETING", "hello"),), better="lower")
    config = Config.data_parallel(16, 2, accumulate=3, axes=axes_of({"amp": True, "opt-level": "O1"}))
    played = play(script, command=command, job=job, config=config, epochs=7, seed=5, target=0.25, resume=True)
    assert played.ended.outcome == "done", played.ended
    folder = played.folder
    for rank in range(2):
        seen = json.loads((folder.parent.parent / f"seen-{rank}.json").read_text())
        assert seen["argv"] == ["train.py", "--b=16", "--amp", "true", "1.2", '{"a": 7}']
        assert seen["path"] == seen["cwd"] == str(folder.parent.parent)
        assert seen["main"] == "train.py"
        expected = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "GREETING": "hello",
            "COTUNE_WORKERS": "2",
            "COTUNE_BATCH_SIZE": "16",
            "COTUNE_GLOBAL_BATCH": "96",
            "COTUNE_ACCUMULATE": "3",
            "COTUNE_EPOCHS": "7",
            "COTUNE_LR": "1.2",
            "COTUNE_SEED": "5",
            "COTUNE_AMP": "true",
            "COTUNE_OPT_LEVEL": "O1",
            "COTUNE_TARGET": "0.25",
            "COTUNE_BETTER": "lower",
            "COTUNE_RESUME": "1",
            "COTUNE_REPORT": str(folder / f"rank-{rank}.jsonl"),
            "COTUNE_STOP": str(folder / "stop"),
            "COTUNE_CHECKPOINT": str(folder / "checkpoint"),
            "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        }
        assert {name: seen[name] for name in expected} == expected
        task = json.loads(seen["TF_CONFIG"])
        assert task["task"] == {"type": "worker", "index": rank}
        assert len(set(task["cluster"]["worker"])) == 2
        assert seen["threads"] == int(seen["OMP_NUM_THREADS"]) == 1
        assert seen["temporary"] == seen["TMPDIR"]
        assert not Path(seen["TMPDIR"]).exists()


def test_large_blocks_of_a_forked_worker_stay_in_its_heap(play: Play) -> None:
    script = """
        import torch
        block = torch.empty(1 << 26, dtype=torch.uint8).data_ptr()
        heap = [line.split()[0].split("-") for line in open("/proc/self/maps") if "[heap]" in line]
        print(any(int(low, 16) <= block < int(high, 16) for low, high in heap))
    """
    assert play(script).log(0).split() == ["True"]


def test_random_states_differ_between_ranks_and_seeds_and_are_the_same_again(play: Play) -> None:
    script = """
        import random, numpy, torch
        print(random.random(), numpy.random.rand(), torch.rand(1).item())
    """
    seen = {}
    for name, seed in (("first", 1), ("second", 2), ("again", 1)):
        played = play(script, workers=2, seed=seed, name=name)
        seen[name] = [played.log(rank).split() for rank in range(2)]
    assert seen["first"] == seen["again"]
    states = [*seen["first"], *seen["second"]]
    for generator in range(3):
        assert len({state[generator] for state in states}) == 4


def test_a_module_runs_as_main_with_the_job_folder_on_the_path(play: Play, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "beside.py").write_text("answer = 42")
    (tmp_path / "package" / "go.py").write_text(
        "import sys\nfrom . import beside\nif __name__ == '__main__': print(beside.answer, sys.argv[1:])"
    )
    played = play(command=(sys.executable, "-m", "package.go", "--epochs", "{epochs}"))
    assert played.log() == "42 ['--epochs', '1']\n"
    assert played.ended.outcome == "done"


@pytest.mark.parametrize(
    "command",
    [("/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE at $MASTER_PORT"), ("/usr/bin/python3", "-S", "train.py")],
)
def test_any_other_program_runs_by_exec(play: Play, command: tuple[str, ...]) -> None:
    if not Path(command[0]).exists():
        pytest.skip(f"needs {command[0]}")
    script = """
        import os, sys
        assert "torch" not in sys.modules
        print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "at", os.environ["MASTER_PORT"])
    """
    played = play(script, workers=2, command=command)
    assert played.ended.outcome == "done"
    assert re.fullmatch(r"rank 1 of 2 at \d{5}\n", played.log(1))
    assert all(Record.read(played.folder, rank) is not None for rank in range(2))


def test_a_program_that_ends_before_it_is_looked_at_is_done(launch: Make) -> None:
    with closing(Local()) as engine:  # whose server has not grown by torch, so that programs start at once
        for number in range(40):
            made = launch(command=("/bin/true",), name=f"launch-{number}")
            engine.start(made)
            assert Played(made.folder, until_ended(engine, made.id)).ended.outcome == "done"


def test_what_counts_only_when_an_interpreter_starts_makes_it_start(play: Play) -> None:
    script = "import sys; print(sys.flags.hash_randomization, 'torch' in sys.modules)"
    played = play(script, job=Job("test", env=(("PYTHONHASHSEED", "0"),)))
    assert played.log() == "0 False\n"


def test_a_pattern_on_the_output_needs_no_change_to_the_script(play: Play) -> None:
    script = """
        for epoch in (1, 2):
            print(f"[{epoch}/2] loss {1 / epoch} val_acc: {epoch / 4}", end="\\r")
    """
    pattern = r"\[(?P<epoch>\d+)/\d+\] loss (?P<loss>\S+) val_acc: (?P<accuracy>\S+)"
    played = play(script, job=Job("test", pattern=pattern))
    reports = [event for event in played.events if isinstance(event, Reported)]
    assert [(said.epoch, said.accuracy, said.metrics) for said in reports] == [
        (1, 0.25, (("loss", 1),)),
        (2, 0.5, (("loss", 0.5),)),
    ]


def test_a_script_that_asks_stops_at_its_target(play: Play) -> None:
    script = """
        import cotune
        for epoch in range(1, 1000):
            if cotune.report(epoch=epoch, accuracy=epoch / 10):
                break
        print("left at", epoch)
    """
    played = play(script, target=0.3)
    assert (played.ended.outcome, played.ended.warning, played.log()) == ("done", None, "left at 3\n")


class TestLocal(EngineTests):
    """What all engines of processes do."""

    @pytest.fixture
    def engine(self, local: Local) -> Local:
        return local

    @pytest.fixture
    def play_on(self, play: Play) -> Play:
        return play


def test_a_script_that_never_reports_is_simply_done(play: Play) -> None:
    played = play("import sys; sys.exit(0)")
    assert [type(event) for event in played.events] == [Started, Ended]
    assert played.ended.outcome == "done"


def test_exit_handlers_and_threads_of_the_script_are_waited_for(play: Play) -> None:
    script = """
        import atexit, threading
        atexit.register(print, "handler")
        threading.Timer(0.05, print, ["thread"]).start()
        print("main")
    """
    assert play(script).log() == "main\nthread\nhandler\n"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"command": ("python", "no_such.py")}, NotFound, "no script 'no_such.py'"),
        ({"command": ("no-such-program",)}, NotFound, "no program 'no-such-program' on the PATH"),
        ({"command": ("./train.py",)}, NotFound, "not executable"),
        ({"command": (sys.executable, "-m", "no_such_module")}, NotFound, "no module 'no_such_module'"),
        ({"command": ("python", "train.py", "{batchsize}")}, UsageError, "did you mean 'batch_size'"),
        ({"command": ("python", "train.py", "{lr}")}, UsageError, "no learning rate"),
        ({"job": Job("test", pattern="(")}, UsageError, "not a regular expression"),
        ({"job": Job("test", pattern="(?P<epoch>.)")}, UsageError, r"\(\?P<accuracy>...\)"),
        ({"config": Config.data_parallel(4, 1, servers=1), "command": ("sh",)}, UsageError, "parameter servers"),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(
    launch: Make, change: dict[str, object], error: type[Exception], words: str
) -> None:
    engine = Local()
    with pytest.raises(error, match=words):
        engine.start(launch(**change))
    assert engine.wait(0) is None
    assert engine._server is None


def test_a_device_that_is_not_here_is_said_in_a_warning(play: Play) -> None:
    if Path("/proc/driver/nvidia/gpus").is_dir():
        pytest.skip("needs a machine without a GPU")
    warning = play("", config=Config.data_parallel(4, 1, "t4")).ended.warning
    assert warning == "there is no GPU here, so device 't4' was the CPU"


def test_a_folder_that_cannot_be_written_is_said_at_once(launch: Make, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(EngineError, match="cannot write to the run's folder"):
        Local().start(launch(""))


def test_a_resumed_launch_reads_only_what_is_new(local: Local, launch: Make) -> None:
    made = launch("import cotune; cotune.report(epoch=1, accuracy=0.5)", name="twice")
    for _ in range(2):
        local.start(made)
        events = until_ended(local, "twice")
        assert [type(event) for event in events] == [Started, Reported, Ended]
