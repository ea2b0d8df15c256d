"""What is put into transformers' Trainer, and so into TRL's: the callback, arguments, and a checkpoint to go on from.

`TrainingArguments` take the config's numbers before they check themselves, so that whatever they derive is right. A
start is a measurement: it begins anew or from cotune's own checkpoint, never from what an earlier one left in
`output_dir`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cotune.callbacks import injected
from cotune.callbacks.together import resumes
from cotune.worker.report import warn

_ARGUMENTS = {
    "batch_size": "per_device_train_batch_size",
    "accumulate": "gradient_accumulation_steps",
    "lr": "learning_rate",
    "steps": "max_steps",
    "epochs": "num_train_epochs",
}


def arguments() -> dict[str, Any]:
    """Return the numbers of the config by the names of `TrainingArguments`."""
    found: dict[str, Any] = {_ARGUMENTS[name]: value for name, value in injected.numbers().items()}
    if (precision := injected.precision()) is not None:
        found |= {"bf16": precision == "bf16", "fp16": precision == "fp16"}
    return found | ({"max_steps": -1} if "num_train_epochs" in found else {})  # which would win over epochs


def change_arguments(module: Any) -> None:
    """Let every set of arguments take the config's numbers before it is checked."""
    check = module.TrainingArguments.__post_init__

    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in arguments().items():
            setattr(self, name, value)
        check(self, *args, **kwargs)

    module.TrainingArguments.__post_init__ = checked


def change_trainer(module: Any) -> None:
    """Give every Trainer cotune's callback, unless it has one, and let it go on from cotune's checkpoint."""
    begin, train = module.Trainer.__init__, module.Trainer.train

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        injected.trainers.append(self)
        begin(self, *args, **kwargs)
        if not injected.reports():
            return
        from cotune.callbacks.huggingface import TIMES_WORKERS, Report, loss_grows

        has = [one for one in self.callback_handler.callbacks if isinstance(one, Report)]
        own = has[0] if has else Report(required=False)
        own.trainer = self
        if not has:
            self.add_callback(own)
        if loss_grows(self.args, self.model, self.model_accepts_loss_kwargs):
            warn(TIMES_WORKERS)

    def trained(self: Any, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not injected.reports():
            return train(self, resume_from_checkpoint, *args, **kwargs)
        return train(self, _to_go_on_from(self, resume_from_checkpoint), *args, **kwargs)

    module.Trainer.__init__, module.Trainer.train = begun, trained


def _to_go_on_from(trainer: Any, asked: Any) -> Any:
    """Return the checkpoint to go on from: cotune's, or one the script names that lies apart from its output."""
    from cotune.callbacks.huggingface import newest

    own = resumes()
    if own is not None and (found := newest(own)) is not None:
        return str(found)
    output = Path(trainer.args.output_dir).resolve()
    return asked if isinstance(asked, str) and output not in Path(asked).resolve().parents else None
