"""A replayed training keeps one account: probes, epochs and moves, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.errors import NotFound
from cotune.recording import Recording, read
from cotune.run.replayed_training import ReplayedTraining
from cotune.types import Config, Goal
from recording.folders import recording

# Seconds per epoch: 80 and 20 on one worker at batch 10 and 40, 40 and 10 on four. 1200 examples.
ACCURACY = (
    "global_batch,epoch,accuracy\n10,1,0.2\n10,2,0.4\n10,3,0.6\n10,4,0.7\n10,5,0.8\n"
    "160,1,0.1\n160,2,0.2\n160,3,0.3\n160,4,0.4\n160,5,0.5\n160,6,0.6\n160,7,0.7\n160,8,0.8\n"
)
SMALL, LARGE = Config.data_parallel(10, 1, "t4"), Config.data_parallel(40, 4, "t4")


@pytest.fixture
def recorded(tmp_path: Path) -> Recording:
    return read(recording(tmp_path / "account", accuracy=ACCURACY))


def trained(found: ReplayedTraining) -> ReplayedTraining:
    while not found.ended:
        found.train()
    return found


def test_a_run_stops_at_its_target_and_costs_up_to_there(recorded: Recording) -> None:
    run = ReplayedTraining(recorded, Goal(0.6, 1000.0, max_epochs=8))
    run.begin(SMALL)
    trained(run)
    assert run.met
    assert (run.epoch, run.seconds, run.device_seconds) == pytest.approx((3.0, 240.0, 240.0))


def test_a_probe_costs_thirty_steps_on_all_workers_and_trains_nothing(recorded: Recording) -> None:
    run = ReplayedTraining(recorded, Goal(0.6, 1000.0, max_epochs=8))
    sample = run.probe(LARGE)
    assert run.seconds == pytest.approx(10 * 30 * 160 / 1200)
    assert run.measuring_device_seconds == run.device_seconds == pytest.approx(4 * run.seconds)
    assert (sample.curve, run.epoch, run.starts) == ((), 0.0, [])


def test_a_move_lands_by_rule_six_and_is_paid_for_on_all_workers(recorded: Recording) -> None:
    run = ReplayedTraining(recorded, Goal(0.8, 1000.0, max_epochs=8))
    run.begin(SMALL)
    run.train()
    run.train()  # 0.4 after two of five epochs
    run.move(LARGE, "to see")
    # The large batch has 0.4 after 4 epochs, but two fifths of its way of 8 are 3.2.
    assert run.epoch == pytest.approx(3.2)
    assert run.seconds == pytest.approx(160 + 1.0)  # a tenth of an epoch of ten seconds
    trained(run)
    assert run.met
    assert run.seconds == pytest.approx(161 + (8 - 3.2) * 10)
    assert run.device_seconds == pytest.approx(160 + 4 * (run.seconds - 160))
    assert run.device_seconds == pytest.approx(sum(sample.device_seconds for sample in run.samples))


def test_another_layout_of_the_same_batch_goes_on_where_it_was(recorded: Recording) -> None:
    run = ReplayedTraining(recorded, Goal(0.8, 1000.0, max_epochs=8))
    run.begin(Config.data_parallel(40, 1, "t4"))
    run.train()
    run.move(Config.data_parallel(10, 4, "t4"), "to see")
    assert run.epoch == 1.0


def test_a_run_ends_at_its_deadline(recorded: Recording) -> None:
    run = ReplayedTraining(recorded, Goal(0.8, 200.0, max_epochs=8))
    run.begin(SMALL)
    trained(run)
    assert not run.met
    assert (run.seconds, run.epoch) == pytest.approx((200.0, 2.5))


def test_a_run_ends_where_its_curve_ends(recorded: Recording) -> None:
    run = ReplayedTraining(recorded, Goal(0.9, None, max_epochs=8))
    run.begin(LARGE)
    trained(run)
    assert (run.met, run.epoch) == (False, 8.0)


def test_what_was_not_recorded_is_told(recorded: Recording) -> None:
    with pytest.raises(NotFound, match="not recorded"):
        ReplayedTraining(recorded, Goal(0.8)).begin(Config.data_parallel(99, 1, "t4"))
