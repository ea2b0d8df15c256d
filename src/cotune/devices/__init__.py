"""What devices can do: a small table of what their makers publish, and what was measured here.

A GPU of the table is one worker; a CPU is one worker per core, as the local engine cuts a machine.
Prices are not here: they are the user's (`devices` in the job file).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

HERE = "here"
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "fp16", "bf16")


@dataclass(frozen=True, slots=True)
class Spec:
    """A device as its maker describes it: operations and bytes per second, bytes of memory."""

    name: str
    kind: Literal["cpu", "gpu"]
    flops: Mapping[str, float]
    bandwidth: float
    memory: float
    link: float
    clock: float
    units: int
    source: str

    @property
    def worker_share(self) -> float:
        """Return the part of the device that one worker has: all of a GPU, one core of a CPU."""
        return 1.0 if self.kind == "gpu" else 1.0 / self.units


@cache
def table() -> Mapping[str, Spec]:
    """Return every device of the table, by name."""
    written = yaml.safe_load((files("cotune.devices") / "table.yaml").read_text(encoding="utf-8"))
    return {name: _spec(name, entry) for name, entry in written.items()}


def _spec(name: str, entry: Mapping[str, Any]) -> Spec:
    return Spec(
        name=name,
        kind=entry["kind"],
        flops={precision: entry[precision] * 1e12 for precision in PRECISIONS if precision in entry},
        bandwidth=entry["bandwidth"] * 1e9,
        memory=entry["memory"] * 1e9,
        link=entry["link"] * 1e9,
        clock=entry["clock"] * 1e6,
        units=entry["units"],
        source=entry["source"],
    )


@cache
def known(name: str) -> Spec | None:
    """Return the device of that name, however it is spelt ('NVIDIA A100-SXM4-80GB', 'RTX 4090'), or None."""
    words = _plain(name)
    if words in _spellings():
        return _spellings()[words]
    within = [spelt for spelt in _spellings() if re.search(rf"(?<![a-z0-9]){spelt}(?![a-z0-9])", _spaced(name))]
    return _spellings()[max(within, key=len)] if within else None


@cache
def _spellings() -> Mapping[str, Spec]:
    return {_plain(name): spec for name, spec in table().items()}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _spaced(name: str) -> str:
    """Return a name in small letters, a series and its number joined: 'rtx4090', 'a100 40gb'."""
    words = re.sub(r"[^a-z0-9]+", " ", name.lower())
    words = re.sub(r"\b(rtx|gtx|titan|epyc|xeon) (?=[a-z]?\d|x\b)", r"\1", words)
    words = re.sub(r"\b(1080|2080) ti\b", r"\1ti", re.sub(r"(gtx1080|rtx2080) ti\b", r"\1ti", words))
    joined = "a100 sxm4 40gb" in words or "a100 pcie 40gb" in words
    return words.replace("a100", "a10040gb") if joined else words.replace("h100 pcie", "h100pcie")
