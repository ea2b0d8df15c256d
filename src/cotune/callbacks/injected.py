"""cotune's callback in a script of transformers' Trainer that nobody has edited.

    COTUNE_TRAINER=batch_size,epochs,lr      the numbers that the command has no placeholder for

When the script imports transformers, its Trainer gets cotune's callback, and `TrainingArguments` the numbers of the
config as its own arguments. TRL's trainers are Trainers. Without the variable, which only cotune sets, nothing changes.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

VARIABLE = "COTUNE_TRAINER"
_ARGUMENTS: dict[str, tuple[str, Callable[[str], float]]] = {
    "batch_size": ("per_device_train_batch_size", int),
    "accumulate": ("gradient_accumulation_steps", int),
    "lr": ("learning_rate", float),
    "steps": ("max_steps", int),
    "epochs": ("num_train_epochs", float),
}


def install() -> None:
    """Let the modules of transformers be changed when they are imported, if cotune asks for it."""
    if VARIABLE in os.environ:
        sys.meta_path.insert(0, _Watcher())


def arguments() -> dict[str, float]:
    """Return the numbers of the config by the names of `TrainingArguments`."""
    wanted = os.environ.get(VARIABLE, "").split(",")
    told = {name: os.environ.get(f"COTUNE_{name.upper()}") for name in wanted}
    found = {
        _ARGUMENTS[name][0]: _ARGUMENTS[name][1](text) for name, text in told.items() if text and name in _ARGUMENTS
    }
    return found | ({"max_steps": -1} if "num_train_epochs" in found else {})  # which would win over epochs


class _Watcher(importlib.abc.MetaPathFinder):
    """Finds the two modules as they are, and changes each after it was run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        change = {"transformers.trainer": _change_trainer, "transformers.training_args": _change_arguments}.get(
            fullname
        )
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Changing(spec.loader, change)
        return spec


class _Changing(importlib.abc.Loader):
    """A module's own loader, with a change after it."""

    def __init__(self, own: Any, change: Callable[[Any], None]) -> None:
        self._own, self._change = own, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Make the module as its own loader does."""
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and change it."""
        self._own.exec_module(module)
        self._change(module)


def _change_trainer(module: Any) -> None:
    """Give every Trainer cotune's callback, unless it has one."""
    begin = module.Trainer.__init__

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        from cotune.callbacks.huggingface import Report

        if not any(isinstance(one, Report) for one in self.callback_handler.callbacks):
            self.add_callback(Report(required=False))

    module.Trainer.__init__ = begun


def _change_arguments(module: Any) -> None:
    """Let every set of arguments take the config's numbers before it is checked."""
    check = module.TrainingArguments.__post_init__

    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in arguments().items():
            setattr(self, name, value)
        check(self, *args, **kwargs)

    module.TrainingArguments.__post_init__ = checked
