"""Pollux's workloads: jobs of measured applications, each with the batch and the GPUs its user chose.

An epoch is done when the slowest of the measured runs had got as far; the job ends after its last
epoch. What a step is worth at another batch is said by the gradients, see `_application`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from cotune.cluster.policy import COUNTED, Nodes, Submission
from cotune.cluster.traces._application import Application, application
from cotune.cluster.traces._lines import Make, Reader, TraceLine, count, seconds
from cotune.cluster.work import Pieces
from cotune.types import Config

_NAME = re.compile(r"\w[\w.-]{0,99}")
_COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")


@dataclass(frozen=True)
class Epochs:
    """A job of some application that trains for all recorded epochs."""

    application: Application
    batch: int
    _pieces: dict[tuple[Config, Nodes], Pieces] = field(default_factory=dict, repr=False, compare=False)

    @property
    def total(self) -> float:
        return float(self.application.progress[-1])

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        return self.application.layouts(self.batch)

    @cached_property
    def recipes(self) -> tuple[Config, ...]:
        return tuple(config for batch in self.application.curves for config in self.application.layouts(batch))

    def pieces(self, config: Config, nodes: Nodes) -> Pieces:
        """Return the progress in a config; without nodes, on as few nodes as possible."""
        if (config, nodes) not in self._pieces:
            progress = self.application.progress
            steps = np.diff(progress) / self.application.gain(config.global_batch)
            # Pollux's own simulator counts an epoch in whole seconds.
            each = np.maximum(np.round(steps * self.application.seconds(config, nodes)), 1e-3)
            self._pieces[config, nodes] = Pieces(progress, np.concatenate([[0.0], np.cumsum(each)]))
        return self._pieces[config, nodes]

    def rate(self, config: Config, nodes: Nodes = COUNTED, done: float = 0.0) -> float:
        return self.pieces(config, nodes).rate(done)

    def advance(self, done: float, seconds: float, config: Config, nodes: Nodes = COUNTED) -> float:
        return self.pieces(config, nodes).after(done, seconds)

    def seconds(self, done: float, config: Config, nodes: Nodes = COUNTED) -> float:
        return self.pieces(config, nodes).left(done)

    def seconds_after_epoch(self, done: float, config: Config) -> float:
        """Return the time of the recorded steps after the present epoch; of one step in the last epoch."""
        progress = self.application.progress
        steps = self.application.curves[self.batch]["iteration"][: len(progress) - 1]
        epoch = int(np.searchsorted(progress, done + 1e-9, side="right")) - 1
        left = max(float(steps[-1] - steps[min(epoch, len(steps) - 1)]), 1.0)
        return left * self.application.seconds(config)


class _Pollux(Reader):
    name = "pollux"

    def knows(self, header: Sequence[str]) -> bool:
        return {"application", "num_replicas", "time"} <= set(header)

    def missing(self, header: Sequence[str]) -> list[str]:
        return [column for column in _COLUMNS if column not in header]

    def open(self, header: Sequence[str], path: Path) -> Make:
        def make(line: TraceLine) -> Submission:
            row = dict(zip(header, line.columns, strict=True))
            if not _NAME.fullmatch(row["application"]):
                raise ValueError(f"application is {row['application'][:80]!r}, not the name of a folder")
            folder = path.resolve().parent.parent / row["application"]
            if not folder.is_dir():
                raise ValueError(f"no measurements of application {row['application']!r} in {folder.parent}")
            app = application(folder)
            gpus, batch = count(row["num_replicas"], "num_replicas"), count(row["batch_size"], "batch_size")
            work = Epochs(app, batch)
            wants = app.layout(batch, gpus)
            return Submission(
                row["name"],
                seconds(row["time"], "time"),
                gpus,
                work.seconds(0.0, wants),
                work=work,
                wants=wants,
                batch_size=wants.batch_size,
                row=line.number,
            )

        return make


READER = _Pollux()
