"""One worker: a forked process that becomes the job's own program.

It takes its share of the machine, its variables and a random state of its own, then
runs the script as Python would, or becomes another program by exec. At the end it
writes its record and exits hard: the destructors of gloo's process groups can abort
or deadlock, so every group is held until then.

A fork has the settings of malloc and of OpenMP that its parent started with, and its scattered pages: so a worker is
told its settings and gathers its pages before its script runs, to have what a Python of its own would have.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import os
import random
import re
import runpy
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from cotune.callbacks import injected
from cotune.run.local.dilation import WARM_UP_STEPS, Dilation, install
from cotune.run.local.messages import Group, Node, Program, Record, Slice
from cotune.run.local.network import BRIDGE_ADDRESS
from cotune.run.memory import of_this_process, tell_before_sigterm
from cotune.run.processes import libc
from cotune.safety.private import FILE_MODE
from cotune.worker import input_wait

PORT = struct.Struct("!I")
_MESSAGE_CHARACTERS = 500
_NOT_DILATED = "no optimiser of torch took steps, so the share of a core was not kept"
_SERVER = Program("module", "cotune.worker.servers", ())
_MALLOPT = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_MMAP_THRESHOLD_": -3}
_MADV_COLLAPSE = 25  # since Linux 6.1
_HUGE_PAGE = 2 << 20
_OPENMP = re.compile(r"(/.*/lib(?:gomp|iomp5|omp)[-.].*)")
_held: list[object] = []


def work(
    group: Group,
    worker: Slice,
    tell: int,
    held: int,
    port: int,
    *,
    sharing: int,
    inherited: int = 0,
    networked: bool = False,
) -> NoReturn:
    """Run the job's program as one worker of its group, and exit.

    It speaks on `tell`, learns on `port` where the store is, and waits for its peers on `held`; so many
    processes are `sharing` its machine, and the `inherited` bytes of their parent.
    It is `networked` when it is on an emulated node with a link of its own.
    """
    try:
        _redirect(group.folder, worker.rank)
        os.setsid()
        os.sched_setaffinity(0, worker.cores)
        os.chdir(group.cwd)
        os.environ.clear()
        os.environ.update({**group.env, **worker.env, **(worker.node.env if worker.node and networked else {})})
        if group.program.kind == "exec":
            _say(tell, "begun", worker.rank)
            os.execvp(group.program.target, [group.program.target, *group.program.arguments])
        set_malloc(os.environ)
        watched = _prepare(group.seed, worker)
        if _has_gpu():
            collapse_pages()  # loaders are forked from here every epoch
            tell_before_sigterm(group.folder, worker.rank, sharing)
        _find_store(port, networked)
        dilation = _dilate(worker.node, len(group.workers), networked) if worker.node else None
        if watched and not worker.server:
            _time_input(worker.node, dilation)
        record = _run(_SERVER if worker.server else group.program, tell, worker.rank)
        if dilation is not None and not worker.server and dilation.steps <= WARM_UP_STEPS:
            record = replace(record, warning=_NOT_DILATED)
        if watched:
            record = replace(record, alone=not _held)
        with contextlib.suppress(RuntimeError):  # a GPU that has failed cannot even tell its memory
            of_this_process(sharing, inherited).write(group.folder, worker.rank)
        record.write(group.folder, worker.rank)
        _say(tell, record.status, worker.rank)
        if record.status == "done":
            os.read(held, 1)  # until all are done
            atexit._run_exitfuncs()
        _flush()
        os._exit(record.exit_code or 0)
    except BaseException:  # nothing may unwind into the leader's frames
        traceback.print_exc()
        _flush()
    finally:
        os._exit(1)


def _redirect(folder: str, rank: int) -> None:
    """Let both output streams go to this rank's log, line by line."""
    log = os.open(Path(folder) / f"rank-{rank}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.close(nothing)
    # Not closed by a `with`: they are open for as long as the process.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115


def _prepare(seed: int, worker: Slice) -> bool:
    """Give the worker a random state of its own; return whether process groups that it makes will be known."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python starts
    tempfile.tempdir = None
    own = int.from_bytes(hashlib.sha256(f"{seed}/{worker.rank}".encode()).digest()[:8])
    random.seed(own)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(own % 2**32)
    if "torch" not in sys.modules:
        return False
    torch = sys.modules["torch"]
    torch.manual_seed(own)
    threads = int(os.environ.get("OMP_NUM_THREADS", len(worker.cores)))
    # On a GPU loaders are common, and operators of other threads rare.
    set_threads(torch, threads, openmp_alone=_has_gpu())
    hold_process_groups()
    return True


def _has_gpu() -> bool:
    return bool(os.environ.get("CUDA_VISIBLE_DEVICES"))


def _dilate(node: Node, workers: int, networked: bool) -> Dilation | None:
    if "torch" not in sys.modules:
        return None
    dilation = Dilation(node.share, workers, None if networked else node.rate)
    install(dilation)
    return dilation


def _time_input(node: Node | None, dilation: Dilation | None) -> None:
    """Let what the loop waits for its data be told, and take the time that the node's disk takes."""
    disk = None if node is None or node.disk is None else node.disk / 8
    input_wait.install(disk, dilation.skip if dilation is not None else lambda: None)


def _find_store(port: int, networked: bool) -> None:
    """Let the rendezvous use the leader's store, if it has one."""
    (number,) = PORT.unpack(os.read(port, PORT.size))
    if number and networked:
        os.environ["MASTER_ADDR"] = BRIDGE_ADDRESS
    if number:
        os.environ.update(MASTER_PORT=str(number), TORCHELASTIC_USE_AGENT_STORE="True")


def hold_process_groups() -> None:
    """Keep every process group that will be made: a destructor may wait for a thread that waits for it."""
    from torch.distributed import distributed_c10d

    make = distributed_c10d._new_process_group_helper

    def made(*args: Any, **kwargs: Any) -> Any:
        group = make(*args, **kwargs)
        _held.append(group)
        return group

    distributed_c10d._new_process_group_helper = made


def _run(program: Program, tell: int, rank: int) -> Record:
    """Run the script as `python` would, and return how it ended."""
    script = program.target
    injected.install()
    sys.argv = [script, *program.arguments]
    sys.path.insert(0, str(Path.cwd()) if program.kind == "module" else str(Path(script).resolve().parent))
    _say(tell, "begun", rank)
    begun = Record("done", 0, time.monotonic(), 0.0)
    try:
        if program.kind == "module":
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
        threading._shutdown()  # type: ignore[attr-defined]  # waits for the script's own threads
        record = begun
    except SystemExit as leaving:
        record = _left(leaving, begun)
    except BaseException as error:
        record = _failed(error, begun)
    _flush()
    return replace(record, ended=time.monotonic())


def _left(leaving: SystemExit, begun: Record) -> Record:
    code = leaving.code
    if code is None or code == 0:
        return begun
    if isinstance(code, int):
        return replace(begun, status="failed", exit_code=code & 0xFF)
    print(code, file=sys.stderr)
    return replace(begun, status="failed", exit_code=1, error="SystemExit", message=str(code)[:_MESSAGE_CHARACTERS])


def _failed(error: BaseException, begun: Record) -> Record:
    frames = _own_frames(error.__traceback__)
    traceback.print_exception(type(error), error, frames)
    last = traceback.extract_tb(frames)[-1:] or None
    where = f"{Path(last[0].filename).name}:{last[0].lineno}" if last else None
    name = type(error).__name__
    text = str(error).strip()[:_MESSAGE_CHARACTERS]
    return replace(begun, status="failed", exit_code=1, error=name, message=text, where=where)


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the script's first frame on."""
    first = frames
    while first is not None:
        name = first.tb_frame.f_code.co_filename
        if name != __file__ and "runpy" not in name:
            return first
        first = first.tb_next
    return frames


def _say(tell: int, word: str, rank: int) -> None:
    os.write(tell, f"{word} {rank} {time.monotonic()}\n".encode())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (ValueError, OSError):  # closed by the script, or a full disk
            continue


def set_malloc(env: Mapping[str, str]) -> None:
    """Do what the variables of glibc's malloc say."""
    for name in _MALLOPT.keys() & env.keys():
        libc.mallopt(_MALLOPT[name], int(env[name]))


def set_threads(torch: ModuleType, count: int, *, openmp_alone: bool) -> None:
    """Let operators run on so many threads.

    `torch.set_num_threads` also makes a pool of its own, which every forked process of a `DataLoader` then makes anew:
    some 10 ms each. Telling OpenMP alone is enough for the main thread; operators of other threads keep the machine's
    number. A process may have several OpenMP libraries: where another one than torch's was told, torch is told itself.
    """
    if count == torch.get_num_threads():  # which torch settles when it is first asked
        return
    openmp = _OPENMP.search(Path("/proc/self/maps").read_text()) if openmp_alone else None
    if openmp is not None:
        ctypes.CDLL(openmp[1]).omp_set_num_threads(count)
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def collapse_pages() -> None:
    """Gather small pages into huge ones, so that what this process forks has less to copy.

    It is advice, which older kernels do not take.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, _, _, inode, *_ = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in addresses.split("-"))
        if access == "rw-p" and inode == "0" and end - begin >= _HUGE_PAGE:
            libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_COLLAPSE)
