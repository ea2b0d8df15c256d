"""Which parameter server holds which block of a model (Optimus's parameter assignment).

Blocks by falling size, with A = bytes / servers:

    under A / 100     to the server with the fewest requests
    up to A           best fit: where the least room (A less what is there) is left, else where most is
    larger            cut into pieces of at most A, each placed as above

Reference: Peng et al., Optimus: an efficient dynamic resource scheduler for deep learning clusters, EuroSys 2018.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_TINY = 0.01


@dataclass
class Server:
    """A parameter server: the pieces it holds, as (block, bytes)."""

    pieces: list[tuple[str, float]] = field(default_factory=list)

    @property
    def bytes(self) -> float:
        return sum(size for _, size in self.pieces)

    @property
    def requests(self) -> int:
        return len(self.pieces)


def assign_parameters(blocks: Mapping[str, float], servers: int) -> list[Server]:
    """Return the servers with the blocks of a model shared out evenly, in bytes and in requests."""
    if servers < 1:
        raise ValueError(f"parameters need at least one server, not {servers}")
    found = [Server() for _ in range(servers)]
    average = sum(blocks.values()) / servers
    for name, size in sorted(blocks.items(), key=lambda block: (-block[1], block[0])):
        if size < _TINY * average:
            min(found, key=lambda server: server.requests).pieces.append((name, size))
            continue
        pieces = max(1, -int(-size // average))
        for _ in range(pieces):
            _best_fit(found, size / pieces, average).pieces.append((name, size / pieces))
    return found


def _best_fit(servers: list[Server], size: float, average: float) -> Server:
    fitting = [server for server in servers if server.bytes + size <= average * (1 + 1e-9)]
    if fitting:
        return max(fitting, key=lambda server: server.bytes)
    return min(servers, key=lambda server: server.bytes)
