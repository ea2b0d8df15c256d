"""Hugging Face Trainer: `Trainer(..., callbacks=[Report()])`, with an `eval_strategy`."""

from __future__ import annotations

import importlib
from typing import Any

from cotune.callbacks import evaluated, is_heard
from cotune.errors import NotFound, missing_extra
from cotune.worker.report import report


def _framework() -> Any:
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise missing_extra("transformers", "huggingface") from None


class Report(_framework().TrainerCallback):  # type: ignore[misc]  # the framework is not there when types are checked
    """Tells cotune how a training goes, and ends it when cotune says so; `metric` names what was evaluated.

    A metric that was not evaluated is an error, unless it is not `required`.
    """

    def __init__(self, metric: str | None = None, *, required: bool = True) -> None:
        self.metric, self.required = metric, required

    def on_train_begin(self, _: Any, state: Any, __: Any, **___: Any) -> None:
        """Tell that the first step is about to begin."""
        report(epoch=state.epoch or 0.0, step=state.global_step)

    def on_step_end(self, _: Any, state: Any, __: Any, **___: Any) -> None:
        """Tell how far it is."""
        report(epoch=state.epoch, step=state.global_step)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:
        """Tell the metric and what evaluating it took."""
        if not is_heard():
            return
        seconds = {"evaluation": metrics["eval_runtime"]} if "eval_runtime" in metrics else {}
        enough = report(epoch=state.epoch, step=state.global_step, **self._told(metrics), **seconds)
        control.should_training_stop |= _any_rank(enough, args.device)

    def _told(self, metrics: dict[str, float]) -> dict[str, Any]:
        """Return the job's metric; where it was not evaluated and need not be, the others by their names."""
        try:
            return dict(evaluated(metrics, self.metric))
        except NotFound:
            if self.required:
                raise
            return {name: value for name, value in metrics.items() if name != "epoch"}


def _any_rank(said: bool, device: Any) -> bool:
    """Say whether any rank has heard that it is enough: all end together, or some would wait for ever."""
    torch = importlib.import_module("torch")
    if not torch.distributed.is_initialized():
        return said
    votes = torch.tensor(float(said), device=device)
    torch.distributed.all_reduce(votes)
    return bool(votes.item() > 0)
