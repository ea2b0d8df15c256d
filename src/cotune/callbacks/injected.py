"""cotune in a script of a training framework that nobody has edited: its callback, and the config's numbers.

    COTUNE_TRAINER=report,batch_size,epochs,lr      what is put in; only cotune sets it

When the script imports its framework, `_CHANGES` are made to the module that has just been run, and to nothing else:
transformers' Trainer (TRL's are such), Lightning's Trainer and Accelerate's Accelerator get cotune's callback
(`report`) and, as arguments of their own, the numbers that the command has no placeholder for. Without the variable
nothing changes. A script in cotune's Python gets this from its worker, one in another by `site/sitecustomize.py` on
PYTHONPATH.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

VARIABLE = "COTUNE_TRAINER"
REPORT = "report"
SITE = Path(__file__).parent / "site"
Precision = Literal["fp32", "bf16", "fp16"]

_CHANGES = {  # module of a framework: ours that changes it, and what it calls
    "transformers.trainer": ("cotune.callbacks.change_transformers", "change_trainer"),
    "transformers.training_args": ("cotune.callbacks.change_transformers", "change_arguments"),
    "lightning.pytorch.trainer.trainer": ("cotune.callbacks.change_lightning", "change_trainer"),
    "pytorch_lightning.trainer.trainer": ("cotune.callbacks.change_lightning", "change_trainer"),
    "accelerate.accelerator": ("cotune.callbacks.change_accelerate", "change_accelerator"),
}
_PRECISIONS: dict[str, Precision] = {
    **dict.fromkeys(("fp32", "float32", "32", "32-true", "no", "none"), "fp32"),
    **dict.fromkeys(("bf16", "bfloat16", "bf16-mixed"), "bf16"),
    **dict.fromkeys(("fp16", "float16", "half", "16", "16-mixed"), "fp16"),
}
_NUMBERS: dict[str, Callable[[str], float]] = {
    "batch_size": int,
    "accumulate": int,
    "lr": float,
    "steps": int,
    "epochs": int,
}

trainers: list[object] = []  # that this process has made: their Accelerator is not the script's own


def install() -> None:
    """Let the modules of frameworks be changed when they are imported, if cotune asks for it."""
    if VARIABLE in os.environ and not any(isinstance(one, _Watcher) for one in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())


def on_path(env: Mapping[str, str]) -> dict[str, str]:
    """Return PYTHONPATH with which another Python gets this too, where the variables ask for it."""
    if VARIABLE not in env:
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(SITE), env.get("PYTHONPATH", "")]))}


def reports() -> bool:
    """Say whether the callback is to be put in, and not only numbers."""
    return REPORT in _asked()


def numbers() -> dict[str, float]:
    """Return the numbers of the config that are to be put in, by cotune's names for them."""
    told = {name: os.environ.get(f"COTUNE_{name.upper()}") for name in _asked() if name in _NUMBERS}
    return {name: _NUMBERS[name](text) for name, text in told.items() if text}


def precision() -> Precision | None:
    """Return the precision that is to be put in, if the config has one."""
    told = os.environ.get("COTUNE_PRECISION", "") if "precision" in _asked() else ""
    if told and told.lower() not in _PRECISIONS:
        raise ValueError(f"cotune sets precision to fp32, bf16 or fp16 through the framework, not to {told!r}")
    return _PRECISIONS[told.lower()] if told else None


def _asked() -> list[str]:
    return os.environ.get(VARIABLE, "").split(",")


class _Watcher(importlib.abc.MetaPathFinder):
    """Finds those modules as they are, and changes each after it was run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Changing(spec.loader, *_CHANGES[fullname])
        return spec


class _Changing(importlib.abc.Loader):
    """A module's own loader, with a change after it."""

    def __init__(self, own: Any, home: str, change: str) -> None:
        self._own, self._home, self._change = own, home, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Make the module as its own loader does."""
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and change it."""
        self._own.exec_module(module)
        getattr(importlib.import_module(self._home), self._change)(module)
