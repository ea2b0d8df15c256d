"""Hugging Face Trainer: `Trainer(..., callbacks=[Report()])`, with an `eval_strategy`.

Progress and metrics come from the Trainer's own state. Where cotune has put the callback in, it knows its `trainer`,
and checkpoints are the Trainer's own too.
"""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path
from typing import Any

from cotune.callbacks import evaluated, is_heard
from cotune.callbacks.together import Ballot, Keeper
from cotune.callbacks.train_job import TrainJobCountdown
from cotune.errors import missing_extra
from cotune.worker.report import report, warn

TIMES_WORKERS = (
    "transformers multiplies the loss of a model that takes **kwargs by the number of workers, also in evaluations, "
    "and this model is none of its own: pass average_tokens_across_devices=False if its loss grows with the workers"
)


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
        self.trainer: Any = None
        self._training = False
        self._ballot, self._keeper = Ballot(), Keeper()
        self._train_job: TrainJobCountdown | None = None

    def on_train_begin(self, args: Any, state: Any, _: Any, model: Any = None, **__: Any) -> None:
        """Tell that the first step is about to begin."""
        self._training = True
        if is_heard() and self.trainer is None and model is not None and loss_grows(args, model, _takes_any(model)):
            warn(TIMES_WORKERS)
        if is_heard() and not _evaluates(args) and self.metric is None and _wanted().startswith("eval_"):
            warn(f"{_wanted()} is never evaluated: the Trainer has no eval_strategy, such as eval_strategy='steps'")
        self._ballot, self._keeper = Ballot(args.device), Keeper()
        report(epoch=state.epoch or 0.0, step=state.global_step)
        self._train_job = TrainJobCountdown.here(leads=state.is_world_process_zero)
        self._count_down(state)

    def on_step_end(self, _: Any, state: Any, control: Any, **__: Any) -> None:
        """Tell how far it is; keep a checkpoint and end where cotune says so."""
        self._count_down(state)
        if not is_heard():
            return
        said = report(epoch=state.epoch, step=state.global_step)
        if self._ballot.stops(state.global_step, said):
            self._keep(state)
            control.should_training_stop = True

    def on_evaluate(self, _: Any, state: Any, control: Any, metrics: dict[str, float], **__: Any) -> None:
        """Tell the metric and what evaluating it took."""
        self._count_down(state, metrics)
        if not is_heard():
            return
        seconds = {"evaluation": metrics["eval_runtime"]} if "eval_runtime" in metrics else {}
        said = report(epoch=state.epoch, step=state.global_step, **self._told(metrics), **seconds)
        enough, due = self._ballot.most(float(said), float(self._training and self._keeper.due))
        control.should_training_stop |= enough > 0
        if due > 0 and not enough:
            self._keep(state)

    def on_log(self, args: Any, state: Any, _: Any, logs: dict[str, float] | None = None, **__: Any) -> None:
        """Tell the training loss where that is the job's metric and nothing is ever evaluated."""
        if is_heard() and not _evaluates(args) and (told := evaluated(logs or {}, self.metric, required=False)):
            report(epoch=state.epoch, step=state.global_step, **told)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Keep no checkpoints of evaluations after the training."""
        self._training = False
        if self._train_job is not None:
            self._train_job.end()
            self._train_job = None

    def _count_down(self, state: Any, metrics: dict[str, float] | None = None) -> None:
        """Tell the TrainJob that this runs in, where it does and cotune does not."""
        if self._train_job is not None and state.max_steps > 0:
            self._train_job.see(state.global_step / state.max_steps, metrics)

    def _told(self, metrics: dict[str, float]) -> dict[str, Any]:
        """Return the job's metric; where it was not evaluated and need not be, the others by their names."""
        others = {name: value for name, value in metrics.items() if name != "epoch"}
        return dict(evaluated(metrics, self.metric, required=self.required)) or others

    def _keep(self, state: Any) -> None:
        if self.trainer is not None:
            seconds = self._keeper.keep(self._save)
            report(epoch=state.epoch, step=state.global_step, checkpoint=seconds)

    def _save(self, into: Path) -> None:
        """Let the Trainer save its checkpoint where cotune wants it, and no other there."""
        trainer, args = self.trainer, self.trainer.args
        own = {name: getattr(args, name) for name in ("output_dir", "save_total_limit", "push_to_hub")}
        best = trainer.state.best_model_checkpoint
        args.output_dir, args.save_total_limit, args.push_to_hub = str(into), 1, False
        try:
            trainer._save_checkpoint(trainer.model_wrapped, None)
        finally:
            for name, value in own.items():
                setattr(args, name, value)
            trainer.state.best_model_checkpoint = best


def loss_grows(args: Any, model: Any, takes_any: bool) -> bool:
    """Say whether the Trainer takes the model's loss for a sum over all workers, which it seems not to be."""
    scaled = getattr(args, "average_tokens_across_devices", False) and takes_any
    own = getattr(model, "base_model", model)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return bool(several and scaled and not isinstance(own, _framework().PreTrainedModel))


def _takes_any(model: Any) -> bool:
    """Say whether a model is told how many items a batch has, as the Trainer sees it."""
    parameters = inspect.signature(getattr(model, "module", model).forward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _evaluates(args: Any) -> bool:
    return str(getattr(args.eval_strategy, "value", args.eval_strategy)) != "no"


def _wanted() -> str:
    return os.environ.get("COTUNE_METRIC", "")


def newest(folder: Path) -> Path | None:
    """Return the furthest checkpoint of the Trainer that is whole: its state is written last."""
    whole = (path.parent for path in folder.glob("checkpoint-*/trainer_state.json"))
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
