"""Jobs, samples and plans to store."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from cotune.types import (
    Cause,
    Config,
    Evaluation,
    Failure,
    Forecast,
    Goal,
    Job,
    LearningRate,
    Load,
    Plan,
    Quantity,
    Sample,
    Stage,
    Terms,
    axes_of,
)

JOB = Job("lenet5", ("python", "train.py", "--batch-size", "{batch_size}"), 60000, lr=LearningRate(0.01, 64))
OTHER = replace(JOB, examples=50000)
CONFIG = Config.data_parallel(64, 2, axes=axes_of({"fsdp": True, "layers": 2, "momentum": 1.0, "precision": "bf16"}))
TERMS = Terms(startup=0.1, evaluation=0.2)


def curve(length: int) -> tuple[Evaluation, ...]:
    return tuple(
        Evaluation(epoch, 1 - 0.1**epoch, epoch / 3, (("loss", 0.1 / epoch),)) for epoch in range(1, length + 1)
    )


def sample(id: str, epochs: int = 2, **changes: object) -> Sample:
    whole = Sample(
        CONFIG, epochs, 1 / 3, 0.9, TERMS, curve(epochs), 2.5, id=id, started="2026-01-01T10:00:00+00:00", folder="/r"
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def plan(prefer_seconds: float = 10.0) -> Plan:
    seconds = Quantity(1.0, prefer_seconds, float("inf"), "extrapolated", "s")
    forecast = Forecast(CONFIG, 5, seconds, seconds, Quantity(0.1, 0.2, 1 / 3, "measured", "s"), None, 0.95)
    rival = replace(forecast, config=Config(8, (Stage("t4", 2, 0, 3), Stage("cpu", 1, 4, 9))), accuracy=seconds)
    return Plan(forecast, Goal(target=0.98, deadline=7200.0), "cheapest", (rival,), 12, ("few samples",))


_finite = st.floats(allow_nan=False, allow_infinity=False)
_count = st.integers(1, 10**12)
_letters = st.text("abcdefghij klmnopqrstuvwxyz éß漢🙂%_'\"\\-:/", max_size=20)
_stages = st.lists(st.builds(Stage, _letters, st.integers(1, 10**6)), min_size=1, max_size=3).map(tuple)
_axes = st.dictionaries(_letters, _letters | st.integers() | _finite | st.booleans(), max_size=4).map(axes_of)
_configs = st.builds(Config, st.integers(1, 10**6), _stages, st.integers(0, 9), st.integers(1, 99), _axes)
_metrics = st.dictionaries(_letters, _finite, max_size=3).map(lambda metrics: tuple(metrics.items()))
_evaluations = st.builds(Evaluation, _finite, _finite, _finite, _metrics)

samples = st.builds(
    Sample,
    config=_configs,
    epochs=_finite,
    epoch_seconds=st.none() | _finite,
    accuracy=st.none() | _finite,
    terms=st.builds(Terms, *[st.none() | _finite] * 6),
    curve=st.lists(_evaluations, max_size=5).map(tuple),
    seconds=_finite,
    failure=st.none() | st.builds(Failure, _letters, st.sampled_from(Cause), st.none() | st.integers(0, 99)),
    purpose=st.sampled_from(["probe", "run"]),
    started=_letters,
    ended=st.booleans(),
    engine=_letters,
    warning=st.none() | _letters,
    folder=_letters,
    resumed_from=st.none() | _letters,
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
    peak_bytes=st.none() | _count,
    limit_bytes=st.none() | _count,
    load=st.none() | st.builds(Load, st.floats(0, 1e3), st.integers(1, 512)),
    goal=st.none() | st.builds(Goal, target=st.none() | _finite, deadline=st.none() | _finite),
)
