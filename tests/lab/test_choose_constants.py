"""Constants are chosen by sources that are left out in turn, and written with what they were chosen on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cotune.lab.choose_constants import ConstantChoice, gaps, luck_score, main, source_of, write
from cotune.predict.constants import CONSTANTS
from cotune.recording import read
from lab.worlds import world

A, B = (0.1, 1.0), (0.2, 1.0)


def test_a_source_has_no_part_in_what_is_chosen_for_it() -> None:
    scores = {"one": {A: 0.0, B: 9.0}, "two": {A: 2.0, B: 1.0}, "three": {A: 2.0, B: 1.0}}
    choice = ConstantChoice(("luck_median", "luck_width"), scores)
    assert choice.best() == A
    assert choice.best(without="one") == B
    rows = {source: (others, out, inside) for source, others, out, inside, _ in choice.rows()}
    assert rows["one"] == (B, 9.0, 0.0)


def test_sources_of_another_population_are_shown_and_do_not_vote() -> None:
    choice = ConstantChoice(
        ("luck_median", "luck_width"), {"mlperf": {A: 0.0, B: 9.0}, "own": {A: 2.0, B: 1.0}}, ("mlperf",)
    )
    assert choice.best() == B
    assert [row[0] for row in choice.rows()] == ["mlperf", "own"]


def test_intervals_that_hold_too_seldom_in_a_source_are_not_taken() -> None:
    scores = {"one": {A: 1.0, B: 2.0}, "two": {A: 1.0, B: 2.0}}
    held = {"one": {A: 0.7, B: 0.9}, "two": {A: 0.9, B: 0.9}}
    choice = ConstantChoice(("few_configs", "usual_surprise"), scores, held=held)
    assert choice.best() == B
    assert choice.best(without="one") == A


def test_the_prior_of_luck_that_made_the_gaps_scores_best() -> None:
    apart = np.abs(0.1 * np.sqrt(2) * np.random.default_rng(0).normal(size=2000))
    scores = {median: luck_score((median, 0.5), apart) for median in (0.02, 0.1, 0.4)}
    assert min(scores, key=lambda median: scores[median]) == 0.1


def test_gaps_are_taken_between_runs_of_one_recipe(tmp_path: Path) -> None:
    several = list(gaps(read(world(tmp_path / "several", seeds=3))))
    assert several
    assert max(several) < 1.0
    assert not list(gaps(read(world(tmp_path / "single", seeds=1))))


def test_what_was_chosen_is_written_beside_its_grounds(tmp_path: Path) -> None:
    path = tmp_path / "constants.py"
    path.write_text("    # few_configs: old words\n    few_configs: float = 1.5  # what it is\n")
    write({"few_configs": 0.5}, {"few_configs": "own; left out 1"}, path)
    assert path.read_text() == "    # few_configs: own; left out 1\n    few_configs: float = 0.5  # what it is\n"


def test_it_prints_left_out_beside_in_sample_scores(tmp_path: Path) -> None:
    for name in ("zeus-one", "mine"):
        world(tmp_path / name, seeds=3)
    lines: list[str] = []
    main([str(tmp_path)], lines.append)
    assert [source_of(name) for name in ("zeus-one", "mine", "shockwave-x")] == ["zeus", "own", "gavel"]
    assert any("left out" in line and "in sample" in line for line in lines)
    assert {line.split()[0] for line in lines if line.startswith(("zeus", "own"))} == {"zeus", "own"}
    assert CONSTANTS.luck_median == pytest.approx(0.08, abs=0.06)
