"""Lines between units of neighbouring stages: named tensors, sent and received in the background.

    send ─▶ queue ─▶ thread: device ─▶ socket, or slot of a ring ─▶ thread: ─▶ device ─▶ queue ─▶ receive

A message is a header (JSON behind its length) and the tensors' bytes: in shared memory between
processes of one node, in the socket between nodes. Threads do the copying while the unit computes;
on a GPU they copy on streams of their own. A line that breaks is an error where it is next used.
"""

from __future__ import annotations

import json
import math
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cotune.errors import EngineError
from cotune.placement.pipeline import _rings
from cotune.placement.pipeline.layers import Flow

Told = list[list[float]]
_LENGTH = struct.Struct("!I")
_ALIGNED = 64


@dataclass(frozen=True, slots=True)
class Message:
    """Tensors by name, and numbers that travel with them; a message without tensors says goodbye."""

    flow: Flow
    told: Told = field(default_factory=list)


class Channel:
    """A line to one unit of a neighbouring stage, used in both directions.

    `sending` and `receiving` are seconds spent on moving bytes.
    """

    def __init__(self, line: socket.socket, device: torch.device, peer: str, *, slots: int = 0) -> None:
        """Speak over a connected socket, with rings of so many slots if the peer is on the same node."""
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._line, self._device, self._peer, self._slots = line, device, peer, slots
        self._writing = threading.Lock()
        self._outgoing: queue.SimpleQueue[tuple[Message, Any] | None] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[Message | Exception] = queue.SimpleQueue()
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._mine: _rings.StageRing | None = None
        self._outgrown: list[_rings.StageRing | None] = []  # that the other may not have opened yet
        self._theirs: _rings.StageRing | None = None
        self._rings = 0  # made so far: a slot of an earlier one is no longer of use
        self.sending = self.receiving = 0.0
        self._threads = [
            threading.Thread(target=self._guarded, args=(do,), daemon=True) for do in (self._send, self._read)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, flow: Mapping[str, Tensor], told: Told | None = None) -> None:
        """Send tensors as soon as the device has made them."""
        self._outgoing.put((Message(dict(flow), told or []), _mark(self._device)))

    def receive(self) -> Message:
        """Return the next message, on this unit's device."""
        message = self._incoming.get()
        if isinstance(message, Exception):
            raise EngineError(f"the line to {self._peer} broke: {message}") from message
        if self._device.type != "cpu":
            stream = torch.get_device_module(self._device).current_stream()
            for tensor in message.flow.values():
                tensor.record_stream(stream)
        return message

    def close(self) -> None:
        """Send what is left, and end."""
        self._outgoing.put(None)
        self._threads[0].join()
        self._line.shutdown(socket.SHUT_WR)
        self._threads[1].join()
        self._line.close()
        self._mine = self._theirs = None

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # told to whoever waits for the next message
            self._incoming.put(error)

    def _send(self) -> None:
        stream = _stream(self._device)
        while (entry := self._outgoing.get()) is not None:
            message, made = entry
            names = {name: tensor.detach().contiguous() for name, tensor in message.flow.items()}
            header: dict[str, Any] = {"told": message.told, "tensors": [_described(*entry) for entry in names.items()]}
            began = time.perf_counter()
            if stream is not None:
                stream.wait_event(made)
            with _on(stream, self._device):
                if self._slots and names:
                    self._place(header, names.values(), stream)
                    self._say(header)
                else:
                    hosted = [tensor.cpu() for tensor in names.values()]
                    self._say(header, (tensor.reshape(-1).view(torch.uint8) for tensor in hosted))
            self.sending += time.perf_counter() - began

    def _place(self, header: dict[str, Any], tensors: Iterable[Tensor], stream: Any) -> None:
        """Put tensors into a slot of the ring, a larger one if need be."""
        listed = list(tensors)
        size = sum(_padded(tensor.nbytes) for tensor in listed)
        if self._mine is None or self._mine.slot_bytes < size:
            self._outgrown.append(self._mine)
            self._mine, path = _rings.create(self._slots, size, self._device)
            self._rings += 1
            self._free = queue.SimpleQueue()
            for number in range(self._slots):
                self._free.put(number)
            header["ring"] = [path, self._slots, self._mine.slot_bytes]
        number = self._free.get()
        slot, begin = self._mine.slot(number), 0
        for tensor in listed:
            slot[begin : begin + tensor.nbytes].view(tensor.dtype).copy_(tensor.view(-1), non_blocking=True)
            begin += _padded(tensor.nbytes)
        if stream is not None:
            stream.synchronize()
        header["slot"] = [self._rings, number]

    def _say(self, header: Mapping[str, Any], payload: Iterable[Tensor] = ()) -> None:
        words = json.dumps(header).encode()
        with self._writing:
            self._line.sendall(_LENGTH.pack(len(words)) + words)
            for part in payload:
                self._line.sendall(part.numpy().data)

    def _read(self) -> None:
        stream = _stream(self._device)
        while (header := self._heard()) is not None:
            if "free" in header:
                ring, number = header["free"]
                if ring == self._rings:
                    self._outgrown.clear()  # the other has opened the newest, and all before it
                    self._free.put(number)
                continue
            began = time.perf_counter()
            with _on(stream, self._device):
                flow = self._taken(header, stream) if header["tensors"] else {}
            self.receiving += time.perf_counter() - began
            self._incoming.put(Message(flow, header["told"]))
        self._incoming.put(EOFError("its process ended"))

    def _heard(self) -> dict[str, Any] | None:
        length = bytearray(_LENGTH.size)
        if not self._fill(memoryview(length)):
            return None
        words = bytearray(_LENGTH.unpack(length)[0])
        if not self._fill(memoryview(words)):
            return None
        header: dict[str, Any] = json.loads(words)
        return header

    def _fill(self, room: memoryview) -> bool:
        """Read exactly as many bytes as there is room for; return whether there were so many."""
        while room:
            got = self._line.recv_into(room)
            if not got:
                return False
            room = room[got:]
        return True

    def _taken(self, header: Mapping[str, Any], stream: Any) -> Flow:
        """Return the tensors that a header describes, copied to this unit's device."""
        if "ring" in header:
            path, slots, slot_bytes = header["ring"]
            self._theirs = _rings.attach(path, slots, slot_bytes, self._device)
        if "slot" not in header:
            return {name: self._received(_dtype(dtype), shape) for name, dtype, shape in header["tensors"]}
        assert self._theirs is not None
        slot, begin, flow = self._theirs.slot(header["slot"][1]), 0, {}
        for name, dtype, shape in header["tensors"]:
            size = math.prod(shape) * _dtype(dtype).itemsize
            there = slot[begin : begin + size].view(_dtype(dtype)).view(shape)
            flow[name] = torch.empty(shape, dtype=_dtype(dtype), device=self._device).copy_(there, non_blocking=True)
            begin += _padded(size)
        if stream is not None:
            stream.synchronize()
        self._say({"free": header["slot"]})
        return flow

    def _received(self, dtype: torch.dtype, shape: list[int]) -> Tensor:
        hosted = torch.empty(shape, dtype=dtype)
        if hosted.numel() and not self._fill(hosted.reshape(-1).view(torch.uint8).numpy().data):
            raise EOFError("it ended in the middle of a message")
        return hosted.to(self._device)


class NullChannel:
    """A line to nobody: it always has the same message, and forgets what it is sent."""

    def __init__(self, flow: Flow) -> None:
        self._message = Message(flow)
        self.sending = self.receiving = 0.0

    def send(self, flow: Mapping[str, Tensor], told: Told | None = None) -> None:
        """Forget it."""

    def receive(self) -> Message:
        return self._message

    def close(self) -> None:
        """Do nothing."""


Wire = Channel | NullChannel  # what a unit has to each of its neighbours


def _described(name: str, tensor: Tensor) -> list[Any]:
    return [name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]


def _dtype(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, name)
    return found


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _mark(device: torch.device) -> Any:
    """Return an event that comes when the device has done what it was told so far."""
    if device.type == "cpu":
        return None
    return torch.get_device_module(device).current_stream().record_event()


def _stream(device: torch.device) -> Any:
    return None if device.type == "cpu" else torch.get_device_module(device).Stream(device)


def _on(stream: Any, device: torch.device) -> Any:
    return torch.get_device_module(device).stream(stream)
