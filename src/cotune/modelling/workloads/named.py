"""What a user names as MODEL: a ready-made workload, or an import path to a callable.

    resnet50                         a name of the box (`SHORT`)
    package.module:callable          which returns an nn.Module, or is one
    package.module:callable(depth=3) with settings
    path/to/file.py:callable         a file instead of a module

A module's inputs come from `--input` (3x224x224 of floats, int1000:128 for 128 whole numbers below
1000, both without the batch), from its own `example_inputs(batch_size)`, or from its first layer,
which is a guess and said to be one.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cotune.errors import InvalidFile, NotFound, UsageError, suggestion
from cotune.modelling.counting.workload import Batch, Workload, sum_of_outputs
from cotune.modelling.workloads.catalogue import SHORT
from cotune.safety import yaml_text

_PATH = re.compile(r"(?P<module>[^:()]+):(?P<name>\w+(?:\.\w+)*)(?:\((?P<settings>.*)\))?")
_INPUT = re.compile(r"(?:int(?P<below>\d+):)?(?P<shape>\d+(?:x\d+)*)")
_PICTURE = 224
_WORDS = 128


@dataclass(frozen=True, slots=True)
class Input:
    """One input of an example: its shape, and for whole numbers the bound they stay below."""

    shape: tuple[int, ...]
    below: int | None = None

    @classmethod
    def read(cls, text: str) -> Input:
        found = _INPUT.fullmatch(text.strip())
        if found is None:
            raise UsageError(
                f"cannot read the input {text!r}; write 3x224x224, or int1000:128 for whole numbers below 1000"
            )
        shape = tuple(int(side) for side in found["shape"].split("x"))
        return cls(shape, int(found["below"]) if found["below"] else None)

    def of(self, batch: int) -> Tensor:
        if self.below is None:
            return torch.randn(batch, *self.shape)
        return torch.randint(self.below, (batch, *self.shape))

    def __str__(self) -> str:
        whole = f"int{self.below}:" if self.below else ""
        return whole + "x".join(map(str, self.shape))


def find(name: str, inputs: Sequence[str] = ()) -> Workload:
    """Return the workload that MODEL names; `inputs` are the shapes the user gave."""
    given = [Input.read(text) for text in inputs]
    if name in SHORT:
        ready = SHORT[name]()
        return ready if not given else _with_inputs(ready.name, ready.build, given, ())
    path = _PATH.fullmatch(name.strip())
    if path is None:
        there = f"give package.module:callable, or one of {', '.join(sorted(SHORT))}"
        raise NotFound(f"no model named {name!r}: {there}{suggestion(name, SHORT)}")
    made = _attribute(_module(path["module"]), path["name"], path["module"])
    settings = _settings(path["settings"] or "", name)
    if isinstance(made, Workload):
        return made
    build = partial(_build, made, settings, name)
    if not isinstance(made, nn.Module):
        _check_arguments(made, settings, name)
    return _with_inputs(name, build, given, ()) if given else _guessed(name, build)


def _module(text: str) -> Any:
    if text.endswith(".py"):
        return _file(Path(text))
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(text)
    except ModuleNotFoundError as error:
        missing = f" (it is imported by {text})" if error.name != text else ""
        raise NotFound(f"no module {error.name!r}{missing}: looked in this folder and on Python's path") from None
    except Exception as error:  # the file is the user's: whatever it raises is told
        raise InvalidFile(f"importing {text} fails: {type(error).__name__}: {error}") from error


def _file(path: Path) -> Any:
    if not path.is_file():
        raise NotFound(f"no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # likewise
        raise InvalidFile(f"running {path} fails: {type(error).__name__}: {error}") from error
    return module


def _attribute(module: Any, name: str, where: str) -> Any:
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            there = [other for other in vars(found) if not other.startswith("_")] if hasattr(found, "__dict__") else []
            raise NotFound(f"{where} has no {name!r}{suggestion(part, there)}")
        found = getattr(found, part)
    return found


def _settings(text: str, name: str) -> Mapping[str, Any]:
    try:
        pairs = [part.split("=", 1) for part in re.split(r",(?![^\[]*\])", text) if part.strip()]
        return {key.strip(): yaml_text.read(value) for key, value in pairs}
    except ValueError:
        raise UsageError(f"cannot read the settings of {name!r}; write callable(depth=3, width=64)") from None


def _check_arguments(made: Any, settings: Mapping[str, Any], name: str) -> None:
    if not callable(made):
        raise UsageError(f"{name} is a {type(made).__name__}, not an nn.Module or a callable that returns one")
    try:
        inspect.signature(made).bind(**settings)
    except TypeError as error:
        raise UsageError(f"{name}: {error}; give its arguments as callable(argument=value)") from None
    except ValueError:
        return  # a callable written in C has no signature to look at


def _build(made: Any, settings: Mapping[str, Any], name: str) -> nn.Module:
    module = made if isinstance(made, nn.Module) else made(**settings)
    if not isinstance(module, nn.Module):
        raise UsageError(f"{name} returns a {type(module).__name__}, not an nn.Module")
    return module


def _with_inputs(
    name: str, build: Callable[[], nn.Module], inputs: Sequence[Input], notes: tuple[str, ...]
) -> Workload:
    def batch(size: int) -> Batch:
        return tuple(entering.of(size) for entering in inputs)

    return Workload(name, build, batch, sum_of_outputs, notes=notes)


def _guessed(name: str, build: Callable[[], nn.Module]) -> Workload:
    """Return a workload whose inputs the module says itself, or its first layer lets guess."""
    try:
        with torch.device("meta"):
            model = build()
    except UsageError:
        raise
    except Exception:  # it wants numbers already when it is made, so it gets them
        model = build()
    own = getattr(model, "example_inputs", None)
    if callable(own):
        return Workload(name, build, lambda size: tuple(own(size)), sum_of_outputs)
    guess = _first_layer(model)
    if guess is None:
        raise UsageError(
            f"what {name} takes cannot be guessed from its layers; give the input, such as 3x224x224", remedy="input"
        )
    return _with_inputs(name, build, [guess], (f"its input is assumed to be {guess}",))


def _first_layer(model: nn.Module) -> Input | None:
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            return Input((layer.in_channels, _PICTURE, _PICTURE))
        if isinstance(layer, nn.Conv1d):
            return Input((layer.in_channels, _WORDS))
        if isinstance(layer, nn.Embedding):
            return Input((_WORDS,), layer.num_embeddings)
        if isinstance(layer, nn.Linear):
            return Input((layer.in_features,))
        if isinstance(layer, nn.RNNBase):
            return Input((_WORDS, layer.input_size))
    return None
