"""What the library is handed that it cannot use is told as cotune's own errors, at once and with what would do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotune import Config, NotFound, Project, Sample
from cotune.errors import UsageError
from cotune.space import Configs
from cotune.types import Evaluation, Floats

COMMAND = "python train.py {batch_size}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"job": 5}, "a job is what a job file would say of it, not 5"),
        ({"goal": 5}, "a goal is what a job file would say of it, not 5"),
        ({"engine": object()}, "an engine is a name, a name with settings, or has start, stop, wait, now and close"),
    ],
)
def test_a_project_of_what_is_none_is_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        Project(**{"job": COMMAND, "folder": tmp_path} | given)


@pytest.mark.parametrize("engine", ["locall", {"locall": {}}])
def test_an_engine_that_there_is_not_is_refused_at_once_with_the_nearest(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no engine named 'locall'.*did you mean 'local'"):
        Project(COMMAND, engine=engine, folder=tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"plan": "x"}, r"plan of a run should be such as project.plan\(...\), not 'x'"),
        ({"plan": 5}, "not 5"),
        ({"layout": {"workers": 2}}, r"such as RunLayout\(workers=2\), not {'workers': 2}"),
        ({"options": {"resume": True}}, r"such as RunOptions\(resume=True\), not {'resume': True}"),
    ],
)
def test_a_run_of_what_is_none_is_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with Project(COMMAND, store=store, folder=tmp_path) as project, pytest.raises(UsageError, match=said):
        project.run(**given)


@dataclass(frozen=True)
class Constant:
    """Predicts one number of everything."""

    value: float

    def fit_seconds(self, *_: object) -> Constant:
        return self

    def predict(self, configs: Configs) -> Floats:
        return np.full(configs.length, self.value)


@dataclass(frozen=True)
class Lost:
    """Predicts no accuracy."""

    def fit_accuracy(self, *_: object) -> Lost:
        return self

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        return np.full((configs.length, len(epochs)), np.nan)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("predictors", "said"),
    [
        ({"predictor": Constant(np.nan)}, "predictor 'Constant' returned nan for batch .* should be positive seconds"),
        ({"predictor": Constant(-3.0)}, "predictor 'Constant' returned -3 for batch .* should be positive seconds"),
        ({"predictor": Constant(0.0)}, "predictor 'Constant' returned 0 for batch .* should be positive seconds"),
        ({"accuracy_predictor": Lost()}, "predictor 'Lost' returned nan for batch .* should be a number"),
    ],
)
def test_a_predictor_that_returns_no_number_is_named(predictors: dict[str, Any], said: str, tmp_path: Path) -> None:
    goal = {"target": "accuracy>=0.8", "max_epochs": 8}
    search = {"workers": [1, 2], "batch_size": [16, 32]}
    with Project(COMMAND, search=search, goal=goal, store=tmp_path / "store.db", folder=tmp_path) as project:
        for batch, workers in ((16, 1), (32, 1), (32, 2)):
            curve = tuple(Evaluation(epoch, 0.9 - 0.5 / epoch, 10.0 * epoch) for epoch in range(1, 8))
            sample = Sample(Config.data_parallel(batch, workers), 7.0, 10.0, 0.8, curve=curve, id=f"{batch}-{workers}")
            project.store.save(project.settings.job, sample)
        with pytest.raises(UsageError, match=said):
            project.plan(**predictors)
