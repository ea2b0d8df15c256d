"""Settings that come as text: a wrong one is told in one line, before anything runs with it."""

from __future__ import annotations

import pytest

from cotune import registry
from cotune.cluster.policies.optimus import Optimus
from cotune.cluster.policy import interval_of
from cotune.errors import UsageError


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("policy", "las(thresholds=3250:7200)", "thresholds: expected a list"),
        ("policy", "las(variant=zz)", "no variant 'zz'"),
        ("policy", "fair_share(quota=abc)", "quota: expected a valid number"),
        ("policy", "fair_share(half_life=0)", "half_life: expected greater than 0"),
        ("policy", "optimus(interval=0)", "interval: expected greater than"),
        ("policy", "optimus(interval=-1)", "interval: expected greater than"),
        ("policy", "optimus(interval=.nan)", "interval: expected"),
        ("policy", "optimus(whole_epochs=perhaps)", "whole_epochs: expected a valid boolean"),
        ("policy", "gittins(history=x)", "history: expected a list"),
        ("policy", "gittins(quantum=-3)", "quantum: expected greater than 0"),
        ("policy", "fifo(preempts=true)", "no setting 'preempts'"),
        ("predictor", "isotonic(bins=10000000000000)", "bins: expected less than"),
        ("predictor", "isotonic(reading=other)", "reading: expected 'pooled' or 'sliced'"),
        ("search", "tabu(rounds=[1)", "cannot read the settings"),
        ("search", "genetic(population=0)", "population: expected greater than"),
        ("engine", "recorded(_now=3)", "no setting '_now'"),
    ],
)
def test_a_wrong_setting_is_told_with_what_was_expected(kind: str, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        registry.create(kind, text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_right_settings_become_the_types_of_the_algorithm() -> None:
    assert registry.create("policy", "las(thresholds=[3250, 7200])").thresholds == (3250.0, 7200.0)
    assert registry.create("policy", "optimus(interval=null)").interval is None


def test_a_policy_made_in_python_is_asked_how_often_it_decides_before_it_does() -> None:
    with pytest.raises(UsageError, match=r"0.001 or more, not -1"):
        interval_of(Optimus(interval=-1))
