"""Lightning: `Trainer(callbacks=[Report()])`, with or without a validation loop.

Epochs are fractions of the training batches. Validation is timed, and its metric told
when it ends; where there is none, what training logged by the end of an epoch counts.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from cotune.callbacks import evaluated, is_heard
from cotune.errors import missing_extra
from cotune.worker.report import report


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
    """Tells cotune how a training goes, and ends it when cotune says so; `metric` names what was logged."""

    def __init__(self, metric: str | None = None) -> None:
        super().__init__()
        self.metric = metric
        self._epoch = 0.0
        self._told = 0.0
        self._began = 0.0

    def on_train_start(self, trainer: Any, _: Any) -> None:
        """Tell that the first step is about to begin."""
        report(epoch=trainer.current_epoch)

    def on_train_batch_end(self, trainer: Any, _: Any, __: Any, ___: Any, batch_idx: int) -> None:
        """Tell how far it is."""
        self._epoch = trainer.current_epoch + (batch_idx + 1) / trainer.num_training_batches
        report(epoch=self._epoch)

    def on_validation_start(self, *_: Any) -> None:
        """Start the clock of an evaluation."""
        self._began = time.monotonic()

    def on_validation_end(self, trainer: Any, _: Any) -> None:
        """Tell the metric and what it took, but not of Lightning's check before training."""
        if not trainer.sanity_checking:
            self._tell(trainer, evaluation=time.monotonic() - self._began)

    def on_train_epoch_end(self, trainer: Any, _: Any) -> None:
        """Tell the metric where no validation has."""
        if self._told < self._epoch:
            self._tell(trainer)

    def _tell(self, trainer: Any, **seconds: float) -> None:
        if not is_heard():
            return
        self._told = self._epoch
        enough = report(epoch=self._epoch, **evaluated(trainer.callback_metrics, self.metric), **seconds)
        # All ranks end together, or those that go on would wait for the others for ever.
        trainer.should_stop |= trainer.strategy.reduce_boolean_decision(enough, all=False)
