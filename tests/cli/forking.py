"""The command line in a process of its own that need not import it: a fork of one that has.

A user pays for the imports once a command, tests would pay hundreds of times. The fork
has its own folder, environment, output and exit code, and ends as any interpreter does.
Torch is not among what is imported: a command that needs it pays for it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from cotune import registry

_IMPORTED = (
    *(f"cotune.cli.{name}" for name in ("main", "app", "verbs.plan", "verbs.profile", "verbs.run")),
    *(f"cotune.{name}" for name in ("predict.predictors.gaussian", "run.engines.local")),
    "rich.table",
)
_MOST = 1 << 20  # bytes of a request: mostly the environment


def run(words: tuple[str, ...], folder: Path, env: dict[str, str]) -> tuple[int, str, str]:
    """Run the command line; return its exit code, output and error output."""
    _, server = _server()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        request = json.dumps({"words": words, "folder": str(folder), "env": env}).encode()
        socket.send_fds(server, [request], [out.fileno(), err.fileno()])
        process = int(server.recv(_MOST))
        try:
            code = int(server.recv(_MOST))
        except BaseException:  # the test's time is up, or Ctrl-C
            os.kill(process, signal.SIGKILL)
            server.recv(_MOST)
            raise
        return code, _written(out), _written(err)


def _written(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@functools.cache
def _server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the process that is forked, and our line to it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = os.pathsep.join(filter(None, sys.path))
    code = f"from cli.forking import serve; serve({its.fileno()})"
    with its:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=[its.fileno()],
            start_new_session=True,
        )
    atexit.register(_end, process, ours)
    return process, ours


def _end(process: subprocess.Popen[bytes], link: socket.socket) -> None:
    link.close()
    process.wait()


def serve(descriptor: int) -> None:
    """Import the command line, and fork a process for each request: it returns from here into the program."""
    for name in _IMPORTED:
        importlib.import_module(name)
    for name in registry.names("predictor"):
        registry.load("predictor", name)
    gc.collect()
    gc.freeze()  # else the end of every fork would copy all pages
    with socket.socket(fileno=descriptor) as asked:
        while True:
            request, files, _, _ = socket.recv_fds(asked, _MOST, 2)
            if not request:
                return
            process = os.fork()
            if process == 0:
                break
            for file in files:
                os.close(file)
            with contextlib.suppress(BrokenPipeError):
                asked.send(str(process).encode())
                asked.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
    _become(json.loads(request), *files)
    sys.modules["cotune.cli.main"].main()


def _become(request: dict[str, Any], out: int, err: int) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["cotune", *request["words"]]
