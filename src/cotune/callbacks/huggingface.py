"""Hugging Face Trainer: `Trainer(..., callbacks=[Report()])`, with an `eval_strategy`."""

from __future__ import annotations

import importlib
from typing import Any

from cotune.callbacks import evaluated, is_heard
from cotune.errors import missing_extra
from cotune.worker.report import report


def _framework() -> Any:
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise missing_extra("transformers", "huggingface") from None


class Report(_framework().TrainerCallback):  # type: ignore[misc]  # the framework is not there when types are checked
    """Tells cotune how a training goes, and ends it when cotune says so; `metric` names what was evaluated."""

    def __init__(self, metric: str | None = None) -> None:
        self.metric = metric

    def on_train_begin(self, _: Any, state: Any, __: Any, **___: Any) -> None:
        """Tell that the first step is about to begin."""
        report(epoch=state.epoch or 0.0)

    def on_step_end(self, _: Any, state: Any, __: Any, **___: Any) -> None:
        """Tell how far it is."""
        report(epoch=state.epoch)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:
        """Tell the metric and what evaluating it took."""
        if not is_heard():
            return
        seconds = {"evaluation": metrics["eval_runtime"]} if "eval_runtime" in metrics else {}
        enough = report(epoch=state.epoch, **evaluated(metrics, self.metric), **seconds)
        control.should_training_stop |= _any_rank(enough, args.device)


def _any_rank(said: bool, device: Any) -> bool:
    """Say whether any rank has heard that it is enough: all end together, or some would wait for ever."""
    torch = importlib.import_module("torch")
    if not torch.distributed.is_initialized():
        return said
    votes = torch.tensor(float(said), device=device)
    torch.distributed.all_reduce(votes)
    return bool(votes.item() > 0)
