"""A script that is edited after the profile: samples of the older one still count, and the verbs say so."""

from __future__ import annotations

from pathlib import Path

from cli.jobs import JOB, TRAINING, cotune, script

GOAL = ("--target", "accuracy=0.8", "--deadline", "1h")
CHANGED = "train.py changed since"


def test_an_edited_script_is_told_by_every_verb_that_uses_its_samples(tmp_path: Path) -> None:
    file = script(tmp_path)
    profile = ("profile", *JOB, *GOAL, "--max-epochs", "20", "--max-samples", "3", *TRAINING)
    first = cotune(tmp_path, *profile)
    assert first.code == 0, first.err
    file.touch()
    planned = cotune(tmp_path, "plan", *GOAL)
    assert planned.code == 0, planned.err
    assert CHANGED not in first.err + planned.err
    file.write_text(file.read_text() + "\nprint('another script')\n")
    again = [cotune(tmp_path, *words) for words in (("plan", *GOAL), ("predict",), ("run",), profile)]
    assert [done.err.count(CHANGED) for done in again] == [1, 1, 1, 1]
    anew = cotune(tmp_path, "predict", "--name", "another")
    assert CHANGED not in anew.err
