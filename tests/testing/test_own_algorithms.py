"""Every algorithm of the box passes the suites that plug-ins run; a new file takes part by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cotune import registry
from cotune.cluster.testing import PolicyConformance
from cotune.lab.testing import StrategyConformance
from cotune.modelling.layer_rows import LayerPredictor
from cotune.placement.testing import PlacementConformance
from cotune.run.engines.local import Local
from cotune.testing import EngineConformance, PredictorConformance, SearchConformance

SUITES: dict[str, type[Any]] = {
    "predictor": PredictorConformance,
    "search": SearchConformance,
    "policy": PolicyConformance,
    "placement": PlacementConformance,
    "strategy": StrategyConformance,
}


def made(kind: str, name: str) -> Any:
    """Return an algorithm as the suites can use it: with jobs of the past, and short intervals."""
    algorithm = registry.load(kind, name)()
    if hasattr(algorithm, "history"):
        algorithm = replace(algorithm, history=(10.0, 100.0, 1000.0))
    if kind == "policy" and getattr(algorithm, "interval", None):
        algorithm = replace(algorithm, interval=5.0)
    return algorithm


for _kind, _suite in SUITES.items():
    for _name in registry.names(_kind):
        _algorithm = made(_kind, _name)
        if not isinstance(_algorithm, LayerPredictor):
            _class = f"Test{_kind.capitalize()}{_name.title().replace('_', '')}"
            globals()[_class] = type(_class, (_suite,), {"algorithm": _algorithm})


class TestLocalEngine(EngineConformance):
    """The engine that every machine has; those of clusters are tried where their daemons run."""

    @pytest.fixture
    def engine(self) -> Iterator[Local]:
        with_room = Local(term_seconds=1.0)
        yield with_room
        with_room.close()


def test_a_suite_refuses_what_breaks_its_promise() -> None:
    class Wrong(PredictorConformance):
        algorithm = type("Nothing", (), {})()

    with pytest.raises(AssertionError, match="fit_seconds"):
        Wrong().test_it_learns_seconds_or_accuracy()
