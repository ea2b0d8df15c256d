"""What is kept of probes: the furthest of each recipe, for runs of that recipe alone, as far as the disk allows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune import checkpoints
from cotune.checkpoints import (
    Resumable,
    can_continue,
    has_checkpoint,
    joined,
    reused_device_seconds,
    take,
    tidy,
    trained,
)
from cotune.space import Axis, Configs, Space
from cotune.types import Config, Evaluation, Failure, Goal, Job, Sample, Terms, axes_of

JOB = Job("made-up", examples=1000)
COUNTED = Terms(checkpoint=0.1)  # of a job that tells when it has written one


def probe(folder: Path, config: Config, epochs: int, first: int = 1, **more: object) -> Sample:
    """A probe that trained some epochs, each as good as its number says, and left a checkpoint."""
    checkpoint = folder / f"{config.workers}-{config.batch_size}-{first}-{epochs}" / "checkpoint"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights").write_bytes(b"w" * 1000)
    curve = tuple(Evaluation(float(epoch), epoch / 10, float(epoch)) for epoch in range(first, epochs + 1))
    name = checkpoint.parent.name
    facts = {"id": name, "started": name, "folder": str(checkpoint.parent), "seed": 7, "terms": COUNTED} | more
    seconds = 2.0 * len(curve)
    return Sample(config, epochs, 2.0, curve[-1].accuracy, curve=curve, seconds=seconds, **facts)  # type: ignore[arg-type]


ONE, TWO = Config.data_parallel(64, 1), Config.data_parallel(32, 2)


def test_another_layout_of_the_recipe_goes_on_with_the_furthest_probe(tmp_path: Path) -> None:
    short, far = probe(tmp_path, ONE, 2), probe(tmp_path, ONE, 5)
    kept = Resumable.among([short, far])
    assert kept.of(TWO) == far
    assert kept.of(Config.data_parallel(64, 2)) is None
    assert kept.of(TWO, seed=7) == far
    assert kept.of(TWO, seed=8) is None
    assert kept.of(TWO, Goal(epochs=5)) == far
    assert kept.of(TWO, Goal(epochs=4)) is None, "it has trained too long for four"


@pytest.mark.parametrize(
    "change",
    [{"failure": Failure("rank 0 crashed")}, {"purpose": "run"}, {"ended": False}, {"folder": "/nowhere"}],
    ids=lambda change: next(iter(change)),
)
def test_what_failed_runs_on_or_left_nothing_is_not_gone_on_with(tmp_path: Path, change: dict[str, object]) -> None:
    good = probe(tmp_path, ONE, 3)
    assert can_continue(good)
    assert not can_continue(replace(good, **change))  # type: ignore[arg-type]


def test_named_axes_are_part_of_the_recipe_and_so_is_the_layout_of_servers_that_do_not_wait(tmp_path: Path) -> None:
    half = Config.data_parallel(64, 1, axes=axes_of({"precision": "bf16"}))
    assert Resumable.among([probe(tmp_path, half, 3)]).of(ONE) is None
    axes = axes_of({"asynchronous": True})
    alone = Config.data_parallel(64, 1, servers=1, axes=axes)
    kept = Resumable.among([probe(tmp_path / "async", alone, 3)])
    assert kept.of(alone) is not None
    assert kept.of(Config.data_parallel(32, 2, servers=1, axes=axes)) is None
    axes = axes_of({"asynchronous": "false"})
    waiting = Resumable.among([probe(tmp_path / "sync", Config.data_parallel(64, 1, servers=1, axes=axes), 3)])
    assert waiting.of(Config.data_parallel(32, 2, servers=1, axes=axes)) is not None, "a word says the same"


def test_epochs_are_told_for_every_layout_and_are_endless_where_the_target_is_met(tmp_path: Path) -> None:
    space = Space((Axis("workers", (1, 2)), Axis("batch_size", (32, 64)), Axis("precision", ("fp32", "bf16"))))
    full = Config.data_parallel(64, 1, axes=axes_of({"precision": "fp32"}))
    kept, configs = Resumable.among([probe(tmp_path, full, 4)]), space.configs()
    same = [c.global_batch == 64 and dict(c.axes)["precision"] == "fp32" for c in configs]
    assert kept.epochs(JOB, Goal(target=0.9), configs).tolist() == np.where(same, 4.0, 0.0).tolist()
    assert kept.epochs(JOB, Goal(target=0.4), configs).tolist() == np.where(same, np.inf, 0.0).tolist()
    assert kept.epochs(JOB, Goal(target=0.4, epochs=9), configs).max() == 4.0
    assert kept.epochs(JOB, Goal(epochs=4), configs).max() == np.inf
    assert kept.epochs(JOB, Goal(epochs=3), configs).max() == 0.0, "it has trained too long for three"
    assert Resumable({}).epochs(JOB, Goal(), Configs.of([ONE])).tolist() == [0.0]


def test_a_checkpoint_that_may_be_older_than_the_evaluation_that_met_has_that_one_left(tmp_path: Path) -> None:
    kept = Resumable.among([probe(tmp_path, ONE, 4, terms=Terms())])
    assert kept.epochs(JOB, Goal(target=0.4), Configs.of([ONE])).tolist() == [3.0]
    first = Resumable.among([probe(tmp_path, ONE, 1, terms=Terms())])
    assert first.epochs(JOB, Goal(target=0.1), Configs.of([ONE])).tolist() == [0.0]


@pytest.mark.parametrize(("most", "left"), [(5, False), (6, True)])
def test_without_a_target_nothing_is_left_of_a_probe_that_trained_all_epochs(
    tmp_path: Path, most: int, left: bool
) -> None:
    assert checkpoints.meets(JOB, Goal(max_epochs=most), probe(tmp_path, ONE, 5)) is not left


def test_a_curve_that_was_gone_on_with_is_whole_and_counted_once(tmp_path: Path) -> None:
    first = probe(tmp_path, ONE, 3)
    second = probe(tmp_path, ONE, 6, first=4, resumed_from=first.id)
    empty, whole = joined([first, second])
    assert (empty.curve, empty.accuracy, empty.epoch_seconds) == ((), None, 2.0)
    assert [point.epoch for point in whole.curve] == [1, 2, 3, 4, 5, 6]
    assert trained(whole) == 6
    assert reused_device_seconds(second.id, [first, second]) == first.device_seconds + second.device_seconds
    anew = probe(tmp_path, ONE, 2, resumed_from=first.id)  # it could not go on after all
    assert [point.epoch for point in joined([first, anew])[1].curve] == [1, 2]


def test_a_run_takes_a_copy_and_the_probe_keeps_its_own(tmp_path: Path) -> None:
    one = probe(tmp_path, ONE, 3)
    take(one, tmp_path / "run")
    (tmp_path / "run" / "checkpoint" / "weights").write_bytes(b"trained on")
    assert has_checkpoint(one.folder)
    assert (Path(one.folder) / "checkpoint" / "weights").read_bytes() == b"w" * 1000


def test_one_checkpoint_of_each_recipe_is_kept_and_only_so_many_recipes(tmp_path: Path) -> None:
    several = [
        probe(tmp_path, Config.data_parallel(8 * n, 1), 2 + n % 2) for n in range(1, checkpoints.MOST_RECIPES + 4)
    ]
    lesser = probe(tmp_path, several[0].config, 1)
    tidy([lesser, *several], tmp_path, favourite=several[0].config)
    left = [sample for sample in (lesser, *several) if has_checkpoint(sample.folder)]
    assert len(left) == checkpoints.MOST_RECIPES
    assert several[0] in left
    assert lesser not in left


def test_checkpoints_that_would_fill_the_disk_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = probe(tmp_path, ONE, 3), probe(tmp_path, Config.data_parallel(8, 1), 3)
    monkeypatch.setattr(checkpoints, "MOST_OF_DISK", 0.0)
    assert tidy([one, two], tmp_path) == []
    assert not has_checkpoint(one.folder)
    assert not has_checkpoint(two.folder)


def test_nothing_outside_the_projects_own_run_folders_is_ever_removed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    inside, foreign = probe(runs, ONE, 1), probe(tmp_path / "somebody", ONE, 1)
    (runs / "link").symlink_to(foreign.folder)
    named = [
        foreign.folder,
        f"{runs}/../somebody/{Path(foreign.folder).name}",
        str(runs / "link"),
        f"{inside.folder}/nested",
        str(runs),
        "",
        ".",
    ]
    (runs / "checkpoint").mkdir()
    rows = [replace(foreign, id=str(place), folder=folder) for place, folder in enumerate(named)]
    assert tidy([inside, probe(runs, ONE, 5), *rows], runs) != []
    assert not has_checkpoint(inside.folder), "its own are tidied"
    assert has_checkpoint(foreign.folder)
    assert (runs / "checkpoint").is_dir()
