"""A pipeline that loses a unit, and one that is given others while it runs, learn what one process learns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cotune.errors import EngineError, NotFound, UsageError
from cotune.placement.elastic import TrainedPipeline, ask_resize, trained
from cotune.placement.profiles import TypeEntry
from cotune.placement.staged import TRAIN, Staged, engines
from cotune.types import Stage
from piped import WATCHED, Piped, watched_in

CPU = {"cpu": TypeEntry(name="cpu", price_per_hour=0.0)}
KEPT = ("--checkpoint-every", "4")


def disturbed(folder: Path, deed: str) -> TrainedPipeline:
    """Train while one layer does something in the tenth batch."""
    staged = Staged((Stage("cpu", 2, 0, 0), Stage("cpu", 1, 1, 2), Stage("cpu", 1, 3, 4)), CPU, table_servers=1)
    (folder / "deed").write_text(deed)
    with engines() as there:
        return trained(there, staged, (*TRAIN, *WATCHED, *KEPT), folder / "run")


def test_a_killed_unit_and_other_units_cost_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipe: Callable[..., Piped]
) -> None:
    watched_in(tmp_path, monkeypatch)
    alone = pipe([("cpu", 1, 0, 4)], *WATCHED).losses
    killed = disturbed(tmp_path, "die")
    assert killed.starts == 2
    assert killed.result["losses"] == pytest.approx(alone, rel=1e-4), "every example was seen once"
    (tmp_path / "run").rename(tmp_path / "before")
    resized = disturbed(tmp_path, "[1, 2, 3]")
    assert (resized.starts, [stage.workers for stage in resized.staged.stages]) == (2, [1, 2, 3])
    assert resized.result["losses"] == pytest.approx(alone, rel=1e-4)


def test_its_own_error_is_not_tried_again(tmp_path: Path) -> None:
    staged = Staged((Stage("cpu", 1, 0, 4),), CPU)
    with engines() as there, pytest.raises(EngineError, match="no shards at /nowhere"):
        trained(there, staged, (*TRAIN, *KEPT, "--data", "/nowhere/*.csv"), tmp_path / "run")


def test_a_wrong_resize_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no pipeline runs in"):
        ask_resize(tmp_path, [1])
    (tmp_path / "stages.json").write_text("[2, 1]")
    with pytest.raises(UsageError, match=r"has 2 stages, now of \[2, 1\] units"):
        ask_resize(tmp_path, [1, 1, 1])
