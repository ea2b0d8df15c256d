"""Lightning: `Trainer(callbacks=[Report()])`, with or without a validation loop.

Epochs are fractions of the training batches, steps the optimiser's. Validation is timed, and its metric told when it
ends; where there is none, what training logged by the end of an epoch counts. Checkpoints are the Trainer's own.
"""

from __future__ import annotations

import importlib
import math
import shutil
import time
from pathlib import Path
from typing import Any

from cotune.callbacks import evaluated, is_heard
from cotune.callbacks.together import Ballot, Keeper
from cotune.callbacks.train_job import TrainJobCountdown
from cotune.errors import missing_extra
from cotune.worker.report import report

_PREFIX = "step-"


def _framework() -> Any:
    """Return Lightning under either of its names."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(str(error.name)):
                raise
    raise missing_extra("Lightning", "lightning")


class Report(_framework().Callback):  # type: ignore[misc]  # the framework is not there when types are checked
    """Tells cotune how a training goes, and ends it when cotune says so; `metric` names what was logged.

    A metric that was not logged is an error, unless it is not `required`.
    """

    def __init__(self, metric: str | None = None, *, required: bool = True) -> None:
        super().__init__()
        self.metric, self.required = metric, required
        self._done: dict[str, float] = {}
        self._told = -1.0
        self._began = 0.0
        self._ballot, self._keeper = Ballot(), Keeper()
        self._train_job: TrainJobCountdown | None = None

    def on_train_start(self, trainer: Any, _: Any) -> None:
        """Tell that the first step is about to begin."""
        self._ballot, self._keeper = Ballot(trainer.strategy.root_device), Keeper()
        report(epoch=trainer.current_epoch, step=trainer.global_step)
        self._train_job = TrainJobCountdown.here(leads=trainer.is_global_zero)
        self._count_down(trainer)

    def on_train_batch_end(self, trainer: Any, _: Any, __: Any, ___: Any, batch_idx: int) -> None:
        """Tell how far it is; keep a checkpoint and end where cotune says so."""
        self._count_down(trainer)
        if not is_heard():
            return
        self._done = {"step": trainer.global_step}
        if math.isfinite(trainer.num_training_batches):
            self._done["epoch"] = trainer.current_epoch + (batch_idx + 1) / trainer.num_training_batches
        if self._ballot.stops(trainer.global_step, report(**self._done)):
            self._keep(trainer)
            trainer.should_stop = True

    def on_validation_start(self, *_: Any) -> None:
        """Start the clock of an evaluation."""
        self._began = time.monotonic()

    def on_validation_end(self, trainer: Any, _: Any) -> None:
        """Tell the metric and what it took, but not of Lightning's check before training, nor of `validate`."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._tell(trainer, evaluation=time.monotonic() - self._began)

    def on_train_epoch_end(self, trainer: Any, _: Any) -> None:
        """Tell the metric where no validation has."""
        if self._told < self._done.get("step", 0.0):
            self._tell(trainer)

    def on_train_end(self, *_: Any) -> None:
        """Tell the TrainJob that this runs in that it has ended."""
        if self._train_job is not None:
            self._train_job.end()
            self._train_job = None

    def _count_down(self, trainer: Any, metrics: Any = None) -> None:
        """Tell the TrainJob that this runs in, where it does and cotune does not."""
        if self._train_job is not None and math.isfinite(trainer.estimated_stepping_batches):
            self._train_job.see(trainer.global_step / trainer.estimated_stepping_batches, metrics)

    def _tell(self, trainer: Any, **seconds: float) -> None:
        self._count_down(trainer, trainer.callback_metrics)
        if not is_heard():
            return
        self._told = self._done.get("step", 0.0)
        said = report(**self._done, **self._evaluated(trainer), **seconds)
        enough, due = self._ballot.most(float(said), float(self._keeper.due))
        trainer.should_stop |= enough > 0
        if due > 0 and not trainer.should_stop:
            self._keep(trainer)

    def _evaluated(self, trainer: Any) -> dict[str, Any]:
        """Return the job's metric; where it was not logged and need not be, the others by their names."""
        logged = trainer.callback_metrics
        return dict(evaluated(logged, self.metric, required=self.required)) or dict(logged)

    def _keep(self, trainer: Any) -> None:
        seconds = self._keeper.keep(lambda into: _save(trainer, into))
        report(**self._done, checkpoint=seconds)


def _save(trainer: Any, into: Path) -> None:
    """Let the Trainer save its checkpoint, whole or not at all, and leave no other."""
    whole = into / f"{_PREFIX}{trainer.global_step}.ckpt"
    part = whole.with_suffix(".part")
    trainer.save_checkpoint(part)
    if not trainer.is_global_zero:
        return
    for old in into.glob(f"{_PREFIX}*.ckpt"):
        if old.is_dir():
            shutil.rmtree(old)
        elif old != whole:
            old.unlink()
    part.replace(whole)


def newest(folder: Path) -> Path | None:
    """Return the furthest checkpoint that is whole."""
    return max(folder.glob(f"{_PREFIX}*.ckpt"), key=lambda path: int(path.stem.removeprefix(_PREFIX)), default=None)
