"""The line to a Ray cluster: one that is there already, or a private one for as long as it is needed.

Never `ray stop`, which ends every Ray process of a machine: a private cluster is ended by
the driver that started it, any other is only left. Ray asks for a token by default and
would write one into the user's home; a private cluster gets one that nobody keeps.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray

from cotune.errors import EngineError, UsageError, suggestion

_QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
_CONNECT_SECONDS = 3.0
_AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
Resources = Mapping[str, float]
_TYPE = "accelerator_type:"
_A_TRACE = 0.001  # Ray's way to ask for a node of a type without taking anything of it
_PLAIN = ("CPU", "GPU", "memory", "object_store_memory")


class RayCluster:
    """A connection, made with this object and ended with it; one that this process already had is only used."""

    def __init__(self, address: str | None, private: Mapping[str, Any]) -> None:
        self._temporary: str | None = None
        self._ours = not ray.is_initialized()
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        _require_listener(address)
        if not self._ours:
            _require_same(address)
            return
        try:
            if address == "local":
                self._start(private)
            else:
                _join(address=address)
        except Exception as error:  # Ray tells the same trouble by many classes
            self.close()
            raise EngineError(f"no Ray cluster at {address!r}: {first_line(error)}{_hint(error)}") from None

    def close(self) -> None:
        """Leave the cluster; end it if it is private."""
        if self._ours:
            ray.shutdown()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _start(self, private: Mapping[str, Any]) -> None:
        keep_token_in_memory()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._temporary = tempfile.mkdtemp(prefix="cotune-ray-", dir="/tmp")  # short: Ray makes sockets in it
        _join(address="local", include_dashboard=False, _temp_dir=self._temporary, **private)


def _join(**asked: Any) -> None:
    """Connect, and end by SIGTERM as before: Ray's own handler would dump its stack on our standard error."""
    before = signal.getsignal(signal.SIGTERM)
    ray.init(**asked, **_QUIET)
    if threading.current_thread() is threading.main_thread() and before is not None:
        signal.signal(signal.SIGTERM, before)


def keep_token_in_memory() -> None:
    """Give the clusters that this process starts a token of their own, unless the user has decided on one."""
    if not any(name in os.environ for name in _AUTHENTICATION) and not (Path.home() / ".ray" / "auth_token").exists():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _require_listener(address: str) -> None:
    """Say at once that nobody is there, which Ray itself finds out after half a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return
    if not listens(host, int(port)):
        raise EngineError(f"no Ray cluster at {address!r}: nobody listens there; give host:port of its head")


def _require_same(address: str) -> None:
    """Refuse a second cluster: a process is connected to one at a time."""
    known = ray.get_runtime_context().gcs_address
    if ":" in address and "/" not in address and address != known:
        raise EngineError(f"this process is connected to the Ray cluster at {known!r}, so not to {address!r}")


def listens(host: str, port: int) -> bool:
    """Say whether anybody accepts connections there."""
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def first_line(error: Exception) -> str:
    """Return what an error says first, or its kind where it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _hint(error: Exception) -> str:
    if isinstance(error, ray.exceptions.AuthenticationError):
        return " (give its token in RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH)"
    return ""


def bundle(device: str, cpus: float, nodes: Sequence[Resources]) -> dict[str, float]:
    """Return the resources of one worker; a device that no node offers is an error.

    cpu    cores alone
    t4     the custom resource `t4` if nodes offer one (with a GPU where they have it),
           else a GPU of nodes whose accelerator_type is T4
    gpu    any GPU
    """
    cores = {"CPU": cpus}
    if device == "cpu":
        return cores
    if device.lower() == "gpu" and any("GPU" in node for node in nodes):
        return {**cores, "GPU": 1}
    offering = [node for node in nodes if node.get(device, 0) >= 1]
    if offering and device not in _PLAIN:
        gpu = {"GPU": 1.0} if all("GPU" in node for node in offering) else {}
        return {**cores, **gpu, device: 1}
    of_type = {name for node in nodes for name in node if name.lower() == _TYPE + device.lower()}
    if of_type:
        return {**cores, "GPU": 1, min(of_type): _A_TRACE}
    there = offered(nodes)
    raise UsageError(f"no Ray node offers device {device!r}; there are {', '.join(there)}{suggestion(device, there)}")


def offered(nodes: Sequence[Resources]) -> list[str]:
    """Return the names of the devices that nodes offer."""
    names = {name for node in nodes for name in node}
    types = {name.removeprefix(_TYPE).lower() for name in names if name.startswith(_TYPE)}
    custom = {name for name in names if name not in _PLAIN and ":" not in name and not name.startswith("_")}
    return ["cpu", *(["gpu"] if "GPU" in names else []), *sorted(types | custom)]


def fitting(asked: Resources, nodes: Sequence[Resources]) -> int:
    """Return how many workers of this kind the nodes can hold when nothing else runs on them."""
    return sum(int(min(node.get(name, 0) / amount for name, amount in asked.items())) for node in nodes)
