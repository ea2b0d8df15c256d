"""The recordings of the joint paper's set-up: with synchronous updates workers do not change what is learnt."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from cotune.recording import Recording, read

FOLDER = Path(__file__).parents[2] / "recordings" / "published"


def differences(recording: Recording) -> list[float]:
    """Return how far apart two numbers of workers with the same global batch and seed are, after every epoch."""
    alike: dict[tuple[int, int], list[tuple[float, ...]]] = {}
    for curves in recording.curves.values():
        for batch, seeds in curves.items():
            for seed, curve in enumerate(seeds):
                alike.setdefault((batch, seed), []).append(curve.accuracy)
    pairs = (pair for some in alike.values() for pair in combinations(some, 2))
    return [abs(one - other) for first, second in pairs for one, other in zip(first, second, strict=True)]


@pytest.mark.parametrize(
    ("name", "most", "pairs"),
    [
        ("lenet5-servers", 0.0, 42),
        ("lenet5-reduce", 0.0, 42),
        ("lenet5-norm", 0.0055, 42),
        ("lenet5-norm-ours", 0.004, 42),
    ],
)
def test_accuracy_is_that_of_the_global_batch_with_batch_norm_nearly(name: str, most: float, pairs: int) -> None:
    apart = differences(read(FOLDER / name))
    assert len(apart) == 12 * pairs
    assert max(apart) == pytest.approx(most, abs=1e-9)


def test_a_server_teaches_what_an_all_reduce_does_and_every_config_was_timed_and_trained_three_times() -> None:
    servers, reduced = read(FOLDER / "lenet5-servers"), read(FOLDER / "lenet5-reduce")
    assert servers.curves == reduced.curves
    for recording in (servers, reduced):
        ((layout, cells),) = recording.times.items()
        assert layout[2] == (1 if recording is servers else 0)
        assert {(w, b): len(repeats) for w, by in cells.items() for b, repeats in by.items()} == {
            (w, b): 3 for w in (1, 2, 4, 8) for b in (32, 64, 128, 256)
        }
        assert {len(seeds) for curves in recording.curves.values() for seeds in curves.values()} == {3}
