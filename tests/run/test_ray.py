"""Real trainings on a real Ray cluster of several nodes, all on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from cotune.errors import EngineError, UsageError
from cotune.run.attempt import StopRule
from cotune.run.engines.ray import Ray
from cotune.run.launch import Event, Launch, Reported, Started
from cotune.run.processes import descendants
from cotune.run.ray.cluster import bundle, fitting, offered
from cotune.run.supervise import supervise
from cotune.types import Config, Job, Sample
from left_behind import ours, writing_to

from launching import (  # isort: skip
    Make,
    PLAIN,
    Play,
    EngineTests,
    TRAINS,
    player,
    trained_together,
    until_ended,
    workers_of,
)

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'cotune[ray]'")
pytestmark = pytest.mark.xdist_group("ray")  # one cluster for all


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    """Three nodes: one with two v100, which is the head, and two with a t4 each."""
    from ray.cluster_utils import Cluster

    from cotune.run.ray.cluster import keep_token_in_memory

    keep_token_in_memory()
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_worker_niceness", "0")  # not 15: beside other tests workers would wait for a core
        head = {"num_cpus": 3, "resources": {"v100": 2, "k80": 1}}
        made = Cluster(initialize_head=True, head_node_args=head)
        made.add_node(num_cpus=2, resources={"t4": 1})
        made.add_node(num_cpus=2, resources={"t4": 1})
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def engine(cluster: object) -> Iterator[Ray]:
    made = Ray(address=cluster.address, term_seconds=1.0)  # type: ignore[attr-defined]
    yield made
    made.close()


@pytest.fixture
def play_on(engine: Ray, launch: Make) -> Play:
    """Return a function that runs a launch on the cluster to its end."""
    return player(engine, launch)


class TestRay(EngineTests):
    """What all engines of other machines do."""


def test_two_workers_train_across_two_nodes(play_on: Play) -> None:
    command = (sys.executable, "train.py", "--batch-size", "{batch_size}", "--workers", "{workers}")
    played = play_on(TRAINS, config=Config.data_parallel(8, 2, "t4"), command=command)
    assert trained_together(played) == [f"{n} 2 {n} 0 1 --batch-size 8 --workers 2" for n in range(2)]


def test_workers_of_one_type_share_the_node_that_has_it(play_on: Play) -> None:
    script = """
        import os
        names = ("GROUP_RANK", "GROUP_WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        print(*(os.environ[name] for name in names))
    """
    played = play_on(script, config=Config.data_parallel(8, 2, "v100"), command=PLAIN)
    assert played.ended.outcome == "done"
    assert [played.log(rank) for rank in range(2)] == ["0 1 0 0 2\n", "0 1 1 1 2\n"]


def test_any_other_program_runs_by_exec(play_on: Play) -> None:
    played = play_on(command=("/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"))
    assert played.ended.outcome == "done"
    assert re.fullmatch(r"rank 0 of 1 at [\d.]+:\d+\n", played.log())


def test_a_launch_without_room_says_what_the_cluster_holds(cluster: object, engine: Ray, launch: Make) -> None:
    hasty = Ray(address=cluster.address, patience=0.1)  # type: ignore[attr-defined]
    hasty.start(launch("", config=Config.data_parallel(8, 3, "t4")))
    ended = until_ended(hasty, "launch")[-1]
    hasty.close()
    assert ended.outcome == "failed"  # type: ignore[union-attr]
    assert "3 workers of CPU 1, t4 1 each" in str(ended.failure)  # type: ignore[union-attr]
    assert "at most 2 of them" in str(ended.failure)  # type: ignore[union-attr]


def test_a_device_that_no_node_offers_is_said_at_once(engine: Ray, launch: Make) -> None:
    with pytest.raises(
        UsageError, match=r"no Ray node offers device 'v10'; there are cpu, k80, t4, v100; did you mean"
    ):
        engine.start(launch("", config=Config.data_parallel(8, 1, "v10")))


def test_close_ends_what_runs_and_leaves_the_cluster_alone(cluster: object, engine: Ray, launch: Make) -> None:
    second = Ray(address=cluster.address)  # type: ignore[attr-defined]
    made = launch("import signal; signal.pause()", workers=2, name="closed", command=PLAIN)
    second.start(made)
    while not isinstance(second.wait(60), Started):
        pass
    assert workers_of(made.folder)
    second.close()
    assert workers_of(made.folder) == []
    assert sum(node["Alive"] for node in ray.nodes()) == 3


def test_a_node_lost_while_training_is_named_and_the_workers_left_go_on(
    cluster: object, engine: Ray, launch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
        import os, pathlib, time, torch, torch.distributed as dist, cotune
        dist.init_process_group("gloo")
        kept = pathlib.Path(os.environ["COTUNE_CHECKPOINT"]) / "epoch"
        epoch = int(kept.read_text()) if os.environ.get("COTUNE_RESUME") else 0
        last = epoch + 3 if os.environ.get("COTUNE_RESUME") else int(os.environ["COTUNE_EPOCHS"])
        print("workers", dist.get_world_size(), "batch", os.environ["COTUNE_BATCH_SIZE"])
        while epoch < last:
            dist.all_reduce(torch.ones(1))
            epoch += 1
            if dist.get_rank() == 0:
                kept.write_text(str(epoch))
            cotune.report(epoch=epoch, accuracy=0.5)
            time.sleep(0.01)
    """
    doomed = cluster.add_node(num_cpus=1, resources={"k80": 1})  # type: ignore[attr-defined]
    made = launch(script, config=Config.data_parallel(8, 2, "k80"), epochs=100_000)
    notes, last = [], None
    for moment in supervise(engine, made, StopRule(), Sample(made.config, id=made.id)):
        if moment.sample.curve and doomed is not None:
            cluster.remove_node(doomed, allow_graceful=False)  # type: ignore[attr-defined]
            doomed = None
        if moment.note:
            notes.append(moment.note)
            monkeypatch.setattr(engine, "patience", 2.0 if len(notes) == 1 else 60.0)
        last = moment.sample
    assert re.match(r"lost node [\d.]+ \([0-9a-f]{8}\) with rank [01]: going on from the checkpoint", notes[0])
    assert "the cluster holds at most 1 of them: going on with batch 16 on 1 k80 worker" in notes[1]
    assert len(notes) == 2
    assert last is not None
    assert last.failure is None
    assert [after.epoch - before.epoch for before, after in pairwise(last.curve)] == [1, 1]
    assert "workers 1 batch 16" in (made.folder / "rank-0.log").read_text()
    assert workers_of(made.folder) == []


SERVED = """
    import os, torch, torch.distributed as dist, cotune, cotune.torch
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimiser = torch.optim.SGD(model.parameters(), 0.05, 0.9)
    trained = cotune.torch.parallel(model, optimiser)
    torch.manual_seed(int(os.environ["RANK"]))
    epoch = 0
    while epoch < int(os.environ["COTUNE_EPOCHS"]):
        batch = torch.randn(8, 4)
        optimiser.zero_grad()
        trained(batch).square().mean().backward()
        optimiser.step()
        epoch += 1
        cotune.report(epoch=epoch)
    print("weights", *torch.cat([p.detach().flatten() for p in model.parameters()]).tolist())
"""


def averaged(workers: int, epochs: int) -> list[float]:
    """Train as SERVED does, in this process: each step by the mean of what the workers' batches ask for."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
    optimiser = torch.optim.SGD(model.parameters(), 0.05, 0.9)
    chances = [torch.Generator().manual_seed(rank) for rank in range(workers)]
    for _ in range(epochs):
        optimiser.zero_grad()
        for chance in chances:
            (model(torch.randn(8, 4, generator=chance)).square().mean() / workers).backward()
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def test_parameter_servers_on_other_nodes_step_by_the_mean_of_the_workers(play_on: Play) -> None:
    played = play_on(SERVED, config=Config.data_parallel(8, 2, "t4", servers=2), epochs=5)
    assert (played.ended.outcome, played.ended.failure, played.ended.warning) == ("done", None, None)
    logs = [played.log(rank) for rank in range(2)]
    assert logs[0] == logs[1]
    assert [float(value) for value in logs[0].split()[1:]] == pytest.approx(averaged(2, 5), abs=1e-6)
    assert workers_of(played.folder) == []


def test_one_worker_alone_finds_its_server(play_on: Play) -> None:
    played = play_on(SERVED, config=Config.data_parallel(8, 1, servers=1), epochs=2)
    assert (played.ended.outcome, played.ended.failure) == ("done", None)


def test_a_killed_server_ends_the_launch_and_is_named(play_on: Play) -> None:
    def kill(event: Event) -> None:
        writing = writing_to(f"{tempfile.gettempdir()}/cotune-*/rank-2.log")
        if isinstance(event, Reported) and len(writing) == 2:
            os.kill(writing[-1], signal.SIGKILL)  # the server, not its host

    played = play_on(SERVED, config=Config.data_parallel(8, 2, servers=1), epochs=1_000_000, each=kill)
    assert played.ended.outcome == "failed"
    assert "rank 2 was ended by SIGKILL" in str(played.ended.failure)
    assert workers_of(played.folder) == []


def test_no_cluster_at_an_address_is_one_clear_error(launch: Make) -> None:
    with pytest.raises(EngineError, match=r"no Ray cluster at .* nobody listens there"):
        Ray(address="127.0.0.1:1").start(launch(""))


def test_a_private_cluster_is_gone_after_close(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os; print(os.environ['RANK'])")
    code = (
        "import sys; from pathlib import Path; from cotune.run.launch import Ended, Launch\n"
        "from cotune.run.engines.ray import Ray\n"
        "from cotune.run.processes import descendants; from cotune.types import Config, Job; import os\n"
        "folder = Path(sys.argv[1])\n"
        "job = Job('x', (sys.executable, '-X', 'utf8', 'train.py'), folder=str(folder))\n"
        "engine = Ray(private={'num_cpus': 2})\n"
        "engine.start(Launch('x', job, Config.data_parallel(1, 2), 1, folder / 'run'))\n"
        "while not isinstance(event := engine.wait(60), Ended): assert event\n"
        "temporary = engine._cluster._temporary\n"
        "import signal; by_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"  # Ray's would dump its stack
        "engine.close()\n"
        "print(event.outcome, Path(temporary).exists(), descendants(os.getpid()), by_default)"
    )
    shown = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert shown.stdout == "done False [] True\n", shown.stderr
    assert shown.stderr == ""


def test_a_worker_asks_for_what_its_device_is_called() -> None:
    cpus = {"CPU": 4.0, "memory": 1.0, "node:10.0.0.1": 1.0}
    custom = {**cpus, "t4": 2.0}
    custom_gpu = {**cpus, "GPU": 2.0, "t4": 2.0}
    typed = {**cpus, "GPU": 4.0, "accelerator_type:A100": 1.0}
    assert bundle("cpu", 2, [cpus]) == {"CPU": 2}
    assert bundle("t4", 1, [cpus, custom]) == {"CPU": 1, "t4": 1}
    assert bundle("t4", 1, [custom_gpu]) == {"CPU": 1, "GPU": 1, "t4": 1}
    assert bundle("a100", 1, [cpus, typed]) == {"CPU": 1, "GPU": 1, "accelerator_type:A100": 0.001}
    assert bundle("gpu", 1, [typed]) == {"CPU": 1, "GPU": 1}
    assert offered([cpus, custom, typed]) == ["cpu", "gpu", "a100", "t4"]
    assert fitting({"CPU": 2, "t4": 1}, [cpus, custom, custom_gpu]) == 4
    for device in ("v100", "memory", "CPU"):
        with pytest.raises(UsageError, match="no Ray node offers device"):
            bundle(device, 1, [cpus, typed])


def test_wrong_settings_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="strategy is one of PACK"):
        Ray(strategy="pack")
    with pytest.raises(UsageError, match="cpus above 0"):
        Ray(cpus=0)
    with pytest.raises(UsageError, match="parameter servers"):
        Ray().start(Launch("x", Job("x", ("sh", "-c", "true")), Config.data_parallel(1, 1, servers=1), 1, tmp_path))


def test_nothing_of_ours_is_left_below_this_process(engine: Ray) -> None:
    left = [command for command in ours(set(descendants(os.getpid()))).values() if "cotune.run.host" in command]
    assert left == []


def test_without_ray_the_extra_is_named(launch: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "cotune.run.ray.cluster", raising=False)
    with pytest.raises(Exception, match=r"pip install 'cotune\[ray\]'"):
        Ray().start(launch(""))
