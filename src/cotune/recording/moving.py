"""Rule 6 of replay: where a run lands that moves to another config, and what the move costs.

    another layout of the same global batch     it continues where it was
    another global batch                        min(first point with the accuracy it had, share x E(new))
                                                share = epochs done / E(old)

E is the first whole epoch that meets the target, or the length of the recorded curve where none does. Between two
points the first meeting is linear. Without the cap a move could jump over a drop of the learning rate, and beat any
run that stays. A move costs `restart_seconds` of `job.yaml`, else a tenth of an epoch of the config moved to, on all
its workers.

Curves hold the accuracy after epoch 1, 2, ... (it rises: sign applied), nan where it is not known.
"""

from __future__ import annotations

import numpy as np

from cotune.recording.truth import Recording, first_meeting
from cotune.types import Floats

RESTART_EPOCHS = 0.1  # of the config moved to, where the recording tells no seconds


def landing(old: Floats, new: Floats, done: float, level: float | None) -> float:
    """Return the epoch of the new curve at which a run continues that has done these epochs of the old one."""
    share = min(1.0, done / epochs_of_way(old, level))
    furthest = share * epochs_of_way(new, level)
    had = accuracy_after(old, done)
    if had is None:  # nothing was evaluated yet, so nothing but the share says where it is
        return furthest
    return min(first_with(new, had), furthest)


def epochs_of_way(curve: Floats, level: float | None) -> float:
    """Return the first whole epoch that meets a level, or the length of the curve where none does."""
    known = np.flatnonzero(np.isfinite(curve))
    if not len(known):
        return float("inf")
    meeting = float("inf") if level is None else float(first_meeting(curve[None], level)[0])
    return min(meeting, float(known[-1] + 1))


def accuracy_after(curve: Floats, done: float) -> float | None:
    """Return the accuracy after so many epochs, linear between whole ones; None where it is not known."""
    known = np.flatnonzero(np.isfinite(curve))
    if not len(known) or not known[0] + 1 <= done <= known[-1] + 1:
        return None
    return float(np.interp(done, known + 1.0, curve[known]))


def first_with(curve: Floats, accuracy: float) -> float:
    """Return the first epoch, linear between two points, that has an accuracy; infinite where none has."""
    known = np.flatnonzero(np.isfinite(curve))
    having = known[curve[known] >= accuracy]
    if not len(having):
        return float("inf")
    place = int(np.searchsorted(known, having[0]))
    if place == 0:
        return float(known[0] + 1)
    before, there = int(known[place - 1]), int(known[place])
    return float(before + 1 + (there - before) * (accuracy - curve[before]) / (curve[there] - curve[before]))


def move_seconds(recording: Recording, epoch_seconds: float) -> float:
    """Return what it takes to move to a config whose epochs take so long; all its workers are held meanwhile."""
    return RESTART_EPOCHS * epoch_seconds if recording.restart_seconds is None else recording.restart_seconds
