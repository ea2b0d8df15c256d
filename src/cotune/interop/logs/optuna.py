"""Optuna: the trials of all studies of a storage (SQLite file or journal), read by Optuna itself.

Intermediate values are reported at epochs, the final value after the last. They have no
time of their own: a trial's seconds are spread evenly over its epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cotune.errors import InvalidFile, missing_extra
from cotune.interop.logged import Logged, Point, database
from cotune.types import Failure

_SQLITE = b"SQLite format 3"


def runs(source: Path) -> Iterator[Logged]:
    """Yield the trials of a storage that have ended."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise missing_extra("optuna, which reads its own storages,", "optuna") from None
    storage = _storage(optuna, source)
    for study in optuna.get_all_study_names(storage):
        for trial in optuna.load_study(study_name=study, storage=storage).get_trials(deepcopy=False):
            if trial.state.is_finished() and trial.duration is not None and trial.datetime_start is not None:
                yield _trial(f"{study}/{trial.number}", trial)


def _trial(name: str, trial: Any) -> Logged:
    reported = sorted(trial.intermediate_values.items())
    first = 1 if reported and reported[0][0] == 0 else 0  # epochs that are counted from 0
    values = reported or [(float(trial.params.get("epochs", 1)), trial.value)]
    began = trial.datetime_start.timestamp()
    return Logged(
        name=name,
        points=tuple(Point({"value": float(v)}, epoch=float(s) + first) for s, v in values if v is not None),
        params={**trial.user_attrs, **trial.params},
        began=began,
        seconds=trial.duration.total_seconds(),
        failure=Failure("ended as FAIL in Optuna") if trial.state.name == "FAIL" else None,
        warning="pruned by Optuna" if trial.state.name == "PRUNED" else None,
    )


def _storage(optuna: Any, source: Path) -> Any:
    try:
        head = source.read_bytes()[: len(_SQLITE)]
    except OSError as error:
        raise InvalidFile(f"cannot read {source}: {error.strerror}; name the storage's file") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if head == _SQLITE:
        with database(source, "Optuna") as opened:  # Optuna would wait for a lock without a word
            opened.execute("SELECT count(*) FROM trials").fetchone()
        return f"sqlite:///{source}"
    if not head.startswith(b"{"):
        raise InvalidFile(f"{source} is neither a SQLite file nor a journal of Optuna")
    journal = optuna.storages.journal
    return optuna.storages.JournalStorage(journal.JournalFileBackend(str(source)))
