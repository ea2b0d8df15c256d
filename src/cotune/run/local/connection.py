"""The engine's line to its fork server: commands go down, events come up, as JSON lines."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from cotune.run.environment import SINGLE_THREADED
from cotune.run.processes import CHUNK

_SHORT_PATH = 40  # multiprocessing makes sockets below it, and the path of a socket has at most 107 bytes


class Connection:
    """A fork server, started with this object and ended with it."""

    def __init__(self, *, isolate: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cotune-", dir=_short_temporary()))
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the server
        commands, self._commands = os.pipe()
        self._events, events = os.pipe()
        self._rest = b""
        facts = (os.getpid(), commands, events, self.folder, "isolate" if isolate else "plain")
        self._keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", "cotune.run.local.keeper", *map(str, facts)],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            env={**os.environ, **SINGLE_THREADED},
            pass_fds=(commands, events),
            start_new_session=True,  # so that Ctrl-C reaches cotune alone
        )
        os.close(commands)
        os.close(events)

    @property
    def is_lost(self) -> bool:
        """Return whether the server has ended by itself, or was ended by somebody else."""
        return self._keeper.poll() is not None

    def send(self, do: str, **facts: Any) -> None:
        """Send one command; a server that is gone tells so by its events."""
        line = json.dumps({"do": do, **facts}).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._commands, line) :]
        except BrokenPipeError:
            return

    def receive(self, timeout: float) -> list[dict[str, Any]] | None:
        """Return the events of the next `timeout` seconds, as soon as there are any; None when the server is gone."""
        if not select.select([self._events], [], [], max(0.0, timeout))[0]:
            return []
        chunk = os.read(self._events, CHUNK)
        if not chunk:
            return None
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def last_words(self) -> str:
        """Return the last line that the server wrote about itself."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self, patience: float) -> None:
        """End the server and all that it started, by force after so many seconds."""
        os.close(self._commands)
        try:
            self._keeper.wait(patience)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        os.close(self._events)
        self._errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _short_temporary() -> str:
    folder = tempfile.gettempdir()
    return folder if len(folder) <= _SHORT_PATH else "/tmp"
