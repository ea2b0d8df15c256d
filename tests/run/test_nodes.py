"""Emulated nodes: real links of the rate asked for, cores as slow as asked for, scripts unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cotune.errors import UsageError
from cotune.run.engines.local import Local
from cotune.run.launch import Launch, Started
from cotune.run.local.nodes import EmulatedNodes
from cotune.types import Config, Job

from launching import Make, Played, player, until_ended  # isort: skip


# Times its own parts as a user would, and knows nothing of nodes.
TIMED = """
    import json, os, time, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    SETUP = None

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(400, 400), torch.nn.Linear(400, 10)))
    REGISTER
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    done = []
    for step in range(8):
        began, cpu = time.perf_counter(), time.thread_time()
        optimizer.zero_grad()
        for _ in range(20):
            with model.no_sync():
                model(torch.randn(64, 400)).square().mean().backward()
        torch.cpu.synchronize()
        computed, used = time.perf_counter(), time.thread_time()
        model(torch.randn(1, 400)).square().mean().backward()
        sent = time.perf_counter()
        optimizer.step()
        done.append((computed - began, used - cpu, sent - computed))
    here = {name: os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")}
    bytes = sum(p.numel() * 4 for p in model.parameters())
    print(json.dumps({"steps": done[3:], "bytes": bytes, **here}))
"""
PLAIN = TIMED.replace("SETUP = None", "").replace("REGISTER", "")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Local]:
    engine = Local(nodes=3, cores=[0.4, 0.4, 0.2], link=["100mbit", "100mbit", "50mbit"])
    yield engine
    engine.close()


def run(engine: Local, made: Launch) -> Played:
    engine.start(made)
    return Played(made.folder, until_ended(engine, made.id))


def told(played: Played, rank: int) -> dict[str, object]:
    lines = [line for line in played.log(rank).splitlines() if line.startswith("{")]
    assert lines, played.log(rank)
    said: dict[str, object] = json.loads(lines[-1])
    return said


def test_links_and_cores_are_as_slow_as_asked_for_and_the_script_is_unchanged(nodes: Local, launch: Make) -> None:
    played = run(nodes, launch(PLAIN, workers=3))
    assert (played.ended.outcome, played.ended.failure) == ("done", None)
    (started,) = (event for event in played.events if isinstance(event, Started))
    assert started.modelled is None
    for rank, share in enumerate((0.4, 0.4, 0.2)):
        said = told(played, rank)
        assert (said["RANK"], said["LOCAL_RANK"], said["WORLD_SIZE"]) == (str(rank), "0", "3")
        assert said["LOCAL_WORLD_SIZE"] == "1"
        ring_bound = 2 * (3 - 1) / 3 * said["bytes"] * 8 / 50e6  # type: ignore[operator]  # the slowest link's
        for computed, cpu, sent in said["steps"]:  # type: ignore[attr-defined]
            assert computed >= 0.95 * cpu / share - 0.002
            assert sent >= 0.97 * ring_bound


def test_machines_share_a_trunk(launch: Make) -> None:
    script = """
    import json, time, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank, weights, seconds = dist.get_rank(), torch.zeros(125_000), {}
    for pair in ((0, 1), (0, 2)):  # inside a machine, and to another
        dist.barrier()
        began = time.perf_counter()
        if rank == pair[0]:
            dist.send(weights, pair[1])
            dist.recv(weights, pair[1])
        elif rank == pair[1]:
            dist.recv(weights, pair[0])
            dist.send(weights, pair[0])
        seconds[pair[1]] = time.perf_counter() - began
    print(json.dumps({"near": seconds[1], "far": seconds[2]}))
    """
    engine = Local(nodes=4, per_machine=2, trunk="20mbit")
    try:
        said = told(run(engine, launch(script, workers=4, name="machines")), 0)
    finally:
        engine.close()
    both_ways = 2 * 500_000 * 8 / 20e6
    assert said["far"] >= 0.9 * both_ways  # type: ignore[operator]
    assert said["near"] < said["far"]  # type: ignore[operator]


def test_a_job_s_own_communication_hook_is_kept(nodes: Local, launch: Make) -> None:
    setup = "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook; calls = []"
    register = (
        "def mine(state, bucket):\n        calls.append(state); return allreduce_hook(None, bucket)\n"
        "    model.register_comm_hook('state', mine)"
    )
    script = TIMED.replace("SETUP = None", setup).replace("REGISTER", register) + "    assert calls == ['state'] * 8\n"
    played = run(nodes, launch(script, workers=2, name="own-hook"))
    assert (played.ended.outcome, played.ended.failure) == ("done", None)


def test_a_job_without_an_optimiser_is_warned_about(nodes: Local, launch: Make) -> None:
    ended = run(nodes, launch("print('nothing to slow')", name="no-optimiser")).ended
    assert ended.outcome == "done"
    assert "no optimiser" in (ended.warning or "")


def test_more_workers_than_nodes_are_refused(nodes: Local, launch: Make) -> None:
    with pytest.raises(UsageError, match="needs 4 nodes, the local engine has 3"):
        nodes.start(launch(workers=4))


FORBIDDEN = """
import os, sys, json
sys.path.insert(0, sys.argv[3])
from cotune.run import processes
processes.check(processes.libc.unshare(processes.USER), "unshare")
user, group = os.getuid(), os.getgid()
for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
    open(f"/proc/self/{name}", "w").write(line)
open("/proc/sys/user/max_net_namespaces", "w").write("0")

from dataclasses import asdict
from pathlib import Path
from cotune.run.launch import Launch
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.local import Local
from cotune.types import Config, Job, Sample

folder, script = Path(sys.argv[1]), sys.argv[2]
engine = Local(nodes=2, cores=0.4, link="20mbit")
config = Config.data_parallel(4, 2)
launch = Launch("modelled", Job("job", (sys.executable, script), folder=str(folder)), config, 1, folder / "run")
try:
    samples = list(attempt(engine, launch, StopRule(), Sample(config)))
finally:
    engine.close()
print(json.dumps([samples[-1].modelled, samples[-1].warning]))
"""


def test_where_namespaces_are_forbidden_links_are_modelled_and_the_sample_says_so(launch: Make, tmp_path: Path) -> None:
    launch(PLAIN)
    command = [sys.executable, "-c", FORBIDDEN, str(tmp_path), "train.py", str(Path(__file__).parents[2] / "src")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in done.stderr:
        pytest.skip("needs user namespaces, to forbid network namespaces in one")
    assert done.returncode == 0, done.stderr
    modelled, warning = json.loads(done.stdout)
    assert modelled
    assert "links are modelled" in warning
    said = told(Played(tmp_path / "run", []), 0)
    for _, _, sent in said["steps"]:  # type: ignore[attr-defined]
        assert sent >= 0.97 * said["bytes"] * 8 / 20e6  # type: ignore[operator]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cores": 0.2}, "nodes: 8"),
        ({"link": "1gbit"}, "nodes: 8"),
        ({"nodes": 0}, "at least 1"),
        ({"nodes": 2, "cores": 1.5}, "up to 1"),
        ({"nodes": 2, "cores": [0.2]}, "1 values for 2 nodes"),
        ({"nodes": 2, "link": "fast"}, "100mbit"),
        ({"nodes": 2, "trunk": "1gbit"}, "per_machine"),
        ({"trunk": "1gbit"}, "nodes: 8"),
    ],
)
def test_nodes_that_cannot_be_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Local(**settings)  # type: ignore[arg-type]


def test_without_shares_nodes_divide_the_machine_and_too_many_are_warned_about() -> None:
    cores = len(os.sched_getaffinity(0))
    assert EmulatedNodes.of(8 * cores, None, None).shares[0] == pytest.approx(0.1)
    assert EmulatedNodes.of(8 * cores, None, None).warning(range(8 * cores)) is None
    assert "cores" in (EmulatedNodes.of(8 * cores, 0.2, None).warning(range(8 * cores)) or "")


def test_a_launch_of_fewer_workers_uses_the_first_nodes(nodes: Local, launch: Make) -> None:
    played = run(nodes, launch(PLAIN, config=Config.data_parallel(4, 1), name="alone"))
    assert played.ended.outcome == "done", played.ended
    for computed, cpu, _ in told(played, 0)["steps"]:  # type: ignore[attr-defined]
        assert computed >= 0.95 * cpu / 0.4 - 0.002


def test_balanced_batches_on_unequal_nodes_train_as_one_process_would(
    nodes: Local, local: Local, tmp_path: Path
) -> None:
    words = "-m cotune.workloads.train --limit 384 --test-limit 50 --lr 0.02 --threads 1 --balance"
    command = (sys.executable, *words.split(), "--batch-size", "{batch_size}", "--epochs", "{epochs}")
    job = Job("balanced", command, folder=str(tmp_path))
    trained = []
    for engine, workers in ((local, 1), (nodes, 3)):
        played = run(
            engine,
            Launch(f"on-{workers}", job, Config.data_parallel(96 // workers, workers), 6, tmp_path / str(workers)),
        )
        assert played.ended.outcome == "done", played.ended
        state = torch.load(played.folder / "checkpoint" / "last.pt", weights_only=True)["model"]
        trained.append(torch.cat([tensor.flatten() for tensor in state.values()]))
    assert "batches of the workers" in played.log()
    torch.testing.assert_close(trained[1], trained[0], rtol=0, atol=1e-5)


def test_workers_are_on_the_nodes_of_their_device_and_on_the_machines_they_were_given() -> None:
    named = ["fast", "fast", "fast", "fast", "slow", "slow"]
    nodes = EmulatedNodes.of(6, 0.1, None, per_machine=2, trunk="1gbit", devices=named)
    assert nodes.of_units(Config.data_parallel(8, 2, "slow")) == [4, 5]
    assert nodes.of_units(Config.data_parallel(8, 3, "fast"), machines=(1, 1, 0)) == [2, 3, 0]
    with pytest.raises(UsageError, match="the local engine has 2 called slow"):
        nodes.of_units(Config.data_parallel(8, 3, "slow"))
    with pytest.raises(UsageError, match="more of them on machine 0 than the 2"):
        nodes.of_units(Config.data_parallel(8, 3, "fast"), machines=(0, 0, 0))
    with pytest.raises(UsageError, match="a name for each of 6 nodes"):
        EmulatedNodes.of(6, 0.1, None, devices=["fast"])


SCRIPT = """
    import torch, cotune
    from torch.utils.data import DataLoader, TensorDataset
    model = torch.nn.Linear(1000, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    cotune.report(epoch=0)
    for (batch,) in DataLoader(TensorDataset(torch.zeros(160, 1000)), batch_size=16):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    cotune.report(epoch=1, accuracy=0.5)
"""


def waited(folder: Path) -> float:
    lines = [json.loads(line) for line in (folder / "rank-0.jsonl").read_text().splitlines()]
    return float(lines[-1]["terms"]["input"])


def test_a_slow_disk_is_waited_for_and_told(launch: Make) -> None:
    """160 examples of 4,000 bytes are 5.12 Mbit: a disk of 10 Mbit/s takes 0.512 s for them."""
    engine = Local(nodes=1, cores=1.0, disk="10mbit", term_seconds=1.0)
    try:
        slow = player(engine, launch)(SCRIPT, name="slow", command=(sys.executable, "train.py"))
    finally:
        engine.close()
    assert slow.ended.outcome == "done", slow.ended
    assert waited(slow.folder) >= 0.512


def test_a_disk_belongs_to_emulated_nodes() -> None:
    with pytest.raises(UsageError, match="a disk or devices belong to emulated nodes"):
        Local(disk="10mbit")
