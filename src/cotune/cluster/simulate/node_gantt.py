"""Which job was on which node over time: rows are nodes, a cell shows the job that held most of the node then."""

from __future__ import annotations

from collections import defaultdict
from string import ascii_lowercase, ascii_uppercase, digits

import numpy as np

from cotune.cluster.simulate.outcome import Outcome
from cotune.errors import UsageError
from cotune.units import duration

_WIDTH = 72
_ROWS = 32
_SYMBOLS = ascii_uppercase + ascii_lowercase + digits
_OTHER, _IDLE = "▒", "·"
Node = tuple[str, int]  # device, number


def stays(outcome: Outcome) -> list[tuple[Node, int, float, float, float]]:
    """Return who was where: node, job, GPUs, from and to; nodes in order."""
    found = [
        ((spell.device, node), spell.number, gpus, spell.start, spell.end)
        for spell in outcome.spells
        for node, gpus in spell.nodes
    ]
    if not found and outcome.spells:
        raise UsageError("GPUs were only counted, so no job was on any node; a cluster 13x8 (nodes x GPUs) has nodes")
    return sorted(found)


def text(outcome: Outcome) -> str:
    """Return the first nodes as rows of time; the jobs served most have a letter each."""
    listed = stays(outcome)
    if not listed:
        return "no job ran"
    begin, end = min(stay[3] for stay in listed), max(stay[4] for stay in listed)
    scale = _WIDTH / max(end - begin, 1e-9)
    nodes = sorted({stay[0] for stay in listed})
    shown = set(nodes[:_ROWS])
    held: defaultdict[tuple[Node, int], defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for node, job, gpus, start, stop in (stay for stay in listed if stay[0] in shown):
        first, last = (start - begin) * scale, (stop - begin) * scale
        for cell in range(int(first), min(int(np.ceil(last)), _WIDTH)):
            held[node, cell][job] += gpus * (min(last, cell + 1) - max(first, cell))
    served = np.argsort(-outcome.service, kind="stable")[: len(_SYMBOLS)].tolist()
    letters = {job: symbol for symbol, job in zip(_SYMBOLS, served, strict=False) if outcome.service[job] > 0}
    lines = []
    for node in nodes[:_ROWS]:
        row = "".join(_cell(held.get((node, cell)), letters) for cell in range(_WIDTH))
        lines.append(f"{' '.join(map(str, node)):>14} |{row}|")
    more = f", {len(nodes) - _ROWS} more nodes" if len(nodes) > _ROWS else ""
    legend = ", ".join(f"{symbol} {outcome.jobs[job].name}" for job, symbol in list(letters.items())[:12])
    lines.append(f"{'node':>14}  {legend}; {_OTHER} others, {_IDLE} idle, over {duration(end - begin)}{more}")
    return "\n".join(lines)


def _cell(held: dict[int, float] | None, letters: dict[int, str]) -> str:
    return letters.get(max(held, key=lambda job: held[job]), _OTHER) if held else _IDLE
