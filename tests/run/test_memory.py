"""What real workers take of memory reaches the end of their launch, however they end."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from cotune.run.engines.local import Local
from cotune.run.group_member import GroupMember, Peer
from cotune.run.launch import Ended, Event, Reported
from cotune.run.memory import Memory, machine_bytes, most

from launching import Play  # isort: skip

LARGE = 300 << 20
_TAKING = f"import cotune, os\ntaken = b'1' * {LARGE} if int(os.environ['RANK']) == 1 else b''\n"


def told(ended: Ended) -> tuple[int, int]:
    assert ended.peak_bytes is not None
    assert ended.limit_bytes is not None
    return ended.peak_bytes, ended.limit_bytes


def test_the_rank_that_takes_the_most_is_told_with_its_share_of_the_machine(play: Play) -> None:
    played = play(_TAKING + "cotune.report(epoch=1)", workers=2)
    peak, limit = told(played.ended)
    quiet = Memory.read(played.folder, 0)
    assert quiet is not None
    assert peak - quiet.peak_bytes == pytest.approx(LARGE, rel=0.1)
    assert quiet.peak_bytes < LARGE / 2, "what workers inherit is there once for all of them"
    assert limit == pytest.approx(machine_bytes() // 2, rel=0.05)
    assert limit < machine_bytes() // 2


@pytest.mark.parametrize(
    "ending",
    ["raise MemoryError", "import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"],
    ids=["it crashes", "it leaves at once", "it is killed"],
)
def test_memory_is_told_however_a_worker_ends(play: Play, ending: str) -> None:
    peak, limit = told(play(f"taken = b'1' * {LARGE}\n{ending}").ended)
    assert peak == pytest.approx(LARGE, rel=0.3)
    assert limit == pytest.approx(machine_bytes(), rel=0.05)


def test_memory_is_told_of_another_program(play: Play) -> None:
    words = f"taken = b'1' * {3 * LARGE}; print('epoch 1')"
    peak, _ = told(play(command=("env", sys.executable, "-c", words)).ended)
    assert peak == pytest.approx(3 * LARGE, rel=0.3)


def test_memory_is_told_of_a_script_that_had_to_be_ended(play: Play, local: Local) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Reported):
            local.stop(event.launch, grace=0.3)

    script = f"import cotune, time; taken = b'1' * {LARGE}\ncotune.report(epoch=0)\nwhile True: time.sleep(1)"
    played = play(script, each=stop)
    assert played.ended.outcome == "stopped"
    assert told(played.ended)[0] == pytest.approx(LARGE, rel=0.3)


def test_a_limit_on_addresses_is_the_limit_where_it_is_nearer(play: Play) -> None:
    limit = 64 << 30 if machine_bytes() > 64 << 30 else machine_bytes() // 2
    script = f"import resource\nresource.setrlimit(resource.RLIMIT_AS, ({limit}, resource.RLIM_INFINITY))"
    peak, most_there = told(play(script).ended)
    assert most_there == limit
    assert peak > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # addresses, of which torch takes many


def test_what_an_earlier_start_left_is_not_told_again(play: Play) -> None:
    played = play("pass")
    Memory(1 << 60, 1 << 61).write(played.folder, 0)
    assert told(play("pass").ended)[0] < 1 << 60


def test_nothing_is_told_where_no_rank_has(tmp_path: Path) -> None:
    assert most(tmp_path, 4) is None


def test_processes_share_the_machine_they_are_on() -> None:
    here, there = Peer(0, "a", 1), Peer(1, "b", 1)
    assert GroupMember(0, (here, here, there), 1, (here,)).sharing == 3
    assert GroupMember(2, (here, here, there), 1).sharing == 1


def test_a_worker_on_a_gpu_leaves_word_before_it_is_ended(tmp_path: Path) -> None:
    """The allocator's figures are stood in for: there is no GPU where tests run."""
    pid = os.fork()
    if pid == 0:
        from types import SimpleNamespace

        from cotune.run.memory import tell_before_sigterm

        cuda = SimpleNamespace(
            is_initialized=lambda: True,
            device_count=lambda: 2,
            max_memory_reserved=lambda device: 1000 * device,
            get_per_process_memory_fraction=lambda _: 0.5,
            get_device_properties=lambda _: SimpleNamespace(total_memory=8000),
        )
        sys.modules["torch"] = SimpleNamespace(cuda=cuda)  # type: ignore[assignment]
        tell_before_sigterm(str(tmp_path), 0, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
    assert Memory.read(tmp_path, 0) == Memory(1000, 4000)
