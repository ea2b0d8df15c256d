"""Pictures of schedules in a terminal: jobs and nodes as Gantt charts, completion times as a CDF, use over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from string import ascii_lowercase, ascii_uppercase, digits

import numpy as np

from cotune.cluster.policy import capacity
from cotune.cluster.simulate.outcome import Outcome
from cotune.errors import UsageError, suggestion
from cotune.types import Floats
from cotune.units import duration

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH = 72
_ROWS = 16
_NODE_ROWS = 32
_SYMBOLS = ascii_uppercase + ascii_lowercase + digits
_OTHER, _IDLE = "▒", "·"
Node = tuple[str, int]  # device, number


def text(kind: str, outcomes: Mapping[str, Outcome]) -> str:
    """Return a picture for a terminal."""
    drawers = {"gantt": _gantt, "nodes": _nodes, "cdf": _cdf, "use": _use}
    if kind not in drawers:
        raise UsageError(f"no picture named {kind!r}; there are {', '.join(drawers)}{suggestion(kind, drawers)}")
    return "\n\n".join(f"{name}\n{drawers[kind](outcome)}" for name, outcome in outcomes.items())


def use_over_time(outcome: Outcome, points: int = _WIDTH) -> tuple[Floats, Floats]:
    """Return the edges of equal stretches of time, and the part of the GPUs held in each."""
    begin = min(job.submit for job in outcome.jobs)
    end = max((spell.end for spell in outcome.spells), default=begin + 1.0)
    edges = np.linspace(begin, end, points + 1)
    if not outcome.spells:
        return edges, np.zeros(points)
    spells = np.array([(spell.start, spell.end, spell.gpus) for spell in outcome.spells]).reshape(-1, 3)
    held = np.concatenate([spells[:, 2], -spells[:, 2]])
    times = np.concatenate([spells[:, 0], spells[:, 1]])
    order = np.argsort(times, kind="stable")
    area = np.concatenate([[0.0], np.cumsum(np.cumsum(held[order])[:-1] * np.diff(times[order]))])
    until = np.interp(edges, times[order], area)
    total = sum(capacity(outcome.cluster).values())
    return edges, np.diff(until) / np.maximum(np.diff(edges), 1e-9) / total


def _use(outcome: Outcome) -> str:
    edges, held = use_over_time(outcome)
    bars = "".join(_BLOCKS[round(min(part, 1.0) * (len(_BLOCKS) - 1))] for part in held)
    return f"|{bars}|\n GPUs held over {duration(edges[-1] - edges[0])}, {held.mean():.0%} on average"


def _cdf(outcome: Outcome) -> str:
    jct = np.sort(outcome.completion)
    if len(jct) == 0:
        return "no job ended"
    lines = []
    for part in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0):
        value = jct[min(int(part * len(jct)), len(jct) - 1)]
        filled = round(np.log1p(value) / max(np.log1p(jct[-1]), 1e-9) * 48)
        lines.append(f"{part:5.0%} |{'█' * filled:<48}| {duration(float(value))}")
    return "\n".join(lines)


def _gantt(outcome: Outcome) -> str:
    """Return the longest-served jobs as rows of time."""
    begin = min(job.submit for job in outcome.jobs)
    end = max((spell.end for spell in outcome.spells), default=begin + 1.0)
    served = np.argsort(-outcome.service, kind="stable")[:_ROWS]
    scale = _WIDTH / max(end - begin, 1e-9)
    lines = []
    for number in sorted(served.tolist()):
        job = outcome.jobs[number]
        row = [" "] * _WIDTH
        left = outcome.end[number] if outcome.finished[number] else end
        for cell in range(int((job.submit - begin) * scale), min(int((left - begin) * scale) + 1, _WIDTH)):
            row[cell] = "·"
        for spell in outcome.spells:
            if spell.number == number:
                for cell in range(
                    int((spell.start - begin) * scale), min(int((spell.end - begin) * scale) + 1, _WIDTH)
                ):
                    row[cell] = "█"
        lines.append(f"{job.name[:14]:>14} {job.gpus:>4} |{''.join(row)}|")
    return "\n".join(lines) + f"\n{'job, GPUs':>19}  █ runs, · waits, over {duration(end - begin)}"


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


def _nodes(outcome: Outcome) -> str:
    """Return the first nodes as rows of time; the jobs served most have a letter each."""
    listed = stays(outcome)
    if not listed:
        return "no job ran"
    begin, end = min(stay[3] for stay in listed), max(stay[4] for stay in listed)
    scale = _WIDTH / max(end - begin, 1e-9)
    nodes = sorted({stay[0] for stay in listed})
    shown = set(nodes[:_NODE_ROWS])
    held: defaultdict[tuple[Node, int], defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for node, job, gpus, start, stop in (stay for stay in listed if stay[0] in shown):
        first, last = (start - begin) * scale, (stop - begin) * scale
        for cell in range(int(first), min(int(np.ceil(last)), _WIDTH)):
            held[node, cell][job] += gpus * (min(last, cell + 1) - max(first, cell))
    served = np.argsort(-outcome.service, kind="stable")[: len(_SYMBOLS)].tolist()
    letters = {job: symbol for symbol, job in zip(_SYMBOLS, served, strict=False) if outcome.service[job] > 0}
    lines = []
    for node in nodes[:_NODE_ROWS]:
        row = "".join(_cell(held.get((node, cell)), letters) for cell in range(_WIDTH))
        lines.append(f"{' '.join(map(str, node)):>14} |{row}|")
    more = f", {len(nodes) - _NODE_ROWS} more nodes" if len(nodes) > _NODE_ROWS else ""
    legend = ", ".join(f"{symbol} {outcome.jobs[job].name}" for job, symbol in list(letters.items())[:12])
    lines.append(f"{'node':>14}  {legend}; {_OTHER} others, {_IDLE} idle, over {duration(end - begin)}{more}")
    return "\n".join(lines)


def _cell(held: dict[int, float] | None, letters: dict[int, str]) -> str:
    return letters.get(max(held, key=lambda job: held[job]), _OTHER) if held else _IDLE
