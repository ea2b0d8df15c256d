from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.devices.present import visible_gpus
from cotune.errors import UsageError
from cotune.run.engines.local import Local
from cotune.run.local.shares import Shares, gpu_env
from cotune.run.slurm.queue import cores_of_a_gpu

PIPE = Path("/tmp/mps")


@pytest.fixture(autouse=True, scope="module")
def folder_of_claims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("machine")))
        yield


@given(st.integers(1, 16), st.lists(st.integers(1, 4), max_size=12))
def test_no_unit_is_held_much_more_than_another(units: int, counts: list[int]) -> None:
    shares = Shares("unit", range(units))
    taken = [unit for count in counts for unit in shares.take(min(count, units))]
    held = [taken.count(unit) for unit in range(units)]
    assert max(held) - min(held) <= 1
    shares.give_back(taken)


def test_workers_of_one_launch_get_neighbours_and_go_round() -> None:
    shares = Shares("unit", range(4))
    assert [shares.take(2), shares.take(2)] == [(0, 1), (2, 3)]
    shares.give_back((2, 3))
    assert [shares.take(1) for _ in range(3)] == [(2,), (3,), (0,)]
    shares.give_back((0, 1, 2, 3, 0))


def test_engines_keep_out_of_each_other_s_way() -> None:
    one, other = Shares("core", range(4)), Shares("core", range(4))
    assert [one.take(1), other.take(2), one.take(1), other.take(1)] == [(0,), (1, 2), (3,), (0,)]
    one.give_back((0, 3))
    third = Shares("core", range(4))
    assert third.take(1) == (3,)
    other.give_back((0, 1, 2))
    assert other.take(1) == (0,)
    assert [third.take(1), third.take(1), third.take(1)] == [
        (1,),
        (2,),
        (0,),
    ]  # each its own first, if in use elsewhere
    third.give_back((1, 2, 0))
    other.give_back((0,))
    third.give_back((3,))
    assert third.take(1) == (0,)
    third.give_back((0,))


def test_an_engine_that_was_killed_holds_nothing() -> None:
    take = "from cotune.run.local.shares import Shares; s = Shares('unit', range(4)); print(s.take(3), flush=True)"
    take += "; input()"
    with subprocess.Popen([sys.executable, "-c", take], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"(0, 1, 2)\n"
        shares = Shares("unit", range(4))
        assert shares.take(1) == (3,)
        engine.kill()
    assert shares.take(1) == (0,)
    shares.give_back((0, 3))


def test_a_gpu_stage_among_cpu_stages_sees_its_own_gpu_as_the_first() -> None:
    assert gpu_env([1], 0, PIPE, alone=True) == {"CUDA_VISIBLE_DEVICES": "1", "LOCAL_RANK": "0"}
    assert gpu_env([0, 0], 1, PIPE, alone=True)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"


def test_without_a_gpu_none_is_seen() -> None:
    assert gpu_env([], 0, PIPE) == {"CUDA_VISIBLE_DEVICES": ""}


def test_with_a_gpu_for_each_every_rank_sees_all_as_under_torchrun() -> None:
    assert [gpu_env([0, 2], rank, PIPE) for rank in range(2)] == [{"CUDA_VISIBLE_DEVICES": "0,2"}] * 2


def test_workers_that_share_a_gpu_get_equal_parts_of_it() -> None:
    first, last = gpu_env([0, 1, 0, 1, 0, 1], 0, PIPE), gpu_env([0, 1, 0, 1, 0, 1], 5, PIPE)
    assert (first["CUDA_VISIBLE_DEVICES"], last["CUDA_VISIBLE_DEVICES"]) == ("0", "1")
    assert first["LOCAL_RANK"] == last["LOCAL_RANK"] == "0"
    assert last["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "33"
    assert last["CUDA_MPS_PIPE_DIRECTORY"] == str(PIPE)


def test_a_gpu_cut_into_slices_gives_one_to_a_single_worker_too() -> None:
    assert gpu_env([0], 0, PIPE, slices=8)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "12"


@pytest.mark.parametrize("settings", [{"cores": 0}, {"cores": 100_000}, {"gpus": 1000}, {"slices": 0}])
def test_an_engine_refuses_what_the_machine_does_not_have(settings: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        Local(**settings)  # type: ignore[arg-type]


def test_only_gpus_that_are_there_and_allowed_are_visible() -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == ()
    assert len(visible_gpus({})) == len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


@pytest.mark.parametrize(("workers", "share"), [(1, 16), (2, 8), (3, 5), (8, 2), (20, 1)])
def test_workers_on_gpus_share_all_cores_and_those_on_cpus_take_one_each(
    workers: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr("cotune.run.engines.local.visible_gpus", lambda: (0,))
    assert Local()._share([True] * workers) == share
    assert Local()._share([False] * workers) == 1
    assert Local(slices=4)._share([True] * workers) == 4


@pytest.mark.parametrize(
    ("described", "device", "cores"),
    [
        ("64|gpu:a100:8(S:0-1)\n32|gpu:a100:8\n16|(null)\n", "a100", 4),
        ("64|gpu:a100:4,gpu:t4:16\n", "gpu", 4),
        ("64|gpu:4\n", "gpu", 16),
        ("2|gpu:4\n", "gpu", 1),
        ("", "a100", 1),
    ],
)
def test_a_gpu_has_its_share_of_a_slurm_nodes_cores(described: str, device: str, cores: int) -> None:
    assert cores_of_a_gpu(described, device) == cores
