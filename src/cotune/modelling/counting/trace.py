"""Counting a step over tensors that have shapes and no numbers, so without a GPU and with hardly any memory.

Every operator that torch dispatches passes here once, in forward, backward and the optimiser. What is
alive is known at any moment from the storages that were made and not yet let go:

    peak = parameters + optimiser state + the most that was alive beside them

The tensors are torch's fake ones. A model whose control flow or shapes depend on its numbers cannot be traced so; its
step is then run for real, on the CPU, and counted meanwhile. What fails even then is reported with what was counted.
"""

from __future__ import annotations

import logging
import traceback
import warnings
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _get_sequence_nr
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.module_tracker import ModuleTracker

from cotune.devices import Precision
from cotune.errors import CotuneError
from cotune.modelling.counting import formulas
from cotune.modelling.counting.counts import Call, Counts, How, LayerCounts, Phase
from cotune.modelling.counting.workload import STATES, Optimiser, Workload, autocast, optimiser_of

_LARGEST_RUN = 2**31  # bytes of parameters; a larger model is not run only to be counted
_FAKE_FAILS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    NotImplementedError,
)


class CannotCount(CotuneError):
    """A step that cannot be followed; `known` holds what was counted until there."""

    exit_code = 4

    def __init__(self, message: str, known: Mapping[str, Any], *, by_faking: bool) -> None:
        super().__init__(message)
        self.known, self.by_faking = known, by_faking  # whether it would not break off with numbers


def count(
    workload: Workload, batch: int, *, precision: Precision = "fp32", optimiser: Optimiser = "momentum"
) -> Counts:
    """Return the counts of one step, traced if it can be and run otherwise."""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return _Step(workload, batch, precision, optimiser).counts("traced")
    except CannotCount as stopped:
        first = stopped.known
        if not stopped.by_faking:
            raise
        if first["parameter_bytes"] > _LARGEST_RUN:
            raise _cannot(first, workload, "; too large to be run only to be counted") from stopped.__cause__
    found = _Step(workload, batch, precision, optimiser).counts("run")
    why = f"it cannot be traced ({first['reason']}, in {first['stopped_in']}), so one step was run here: "
    return replace(found, notes=(*found.notes, why + "its counts hold for the numbers that were drawn"))


def _cannot(known: Mapping[str, Any], workload: Workload, more: str = "", *, by_faking: bool = False) -> CannotCount:
    words = "a step of {model} at batch {batch} breaks off in {stopped_in}: {reason}".format_map(known)
    until = "{parameters:,} parameters, {operators_so_far} operators counted until there".format_map(known)
    return CannotCount("; ".join((f"{words}{more} ({until})", *workload.notes)), known, by_faking=by_faking)


@dataclass(slots=True)
class _Alive:
    """A storage that was made and not yet let go."""

    bytes: int
    layer: str
    phase: Phase


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say the types of its modes
    """Every operator that is dispatched, and the storages that are alive."""

    def __init__(self, tracker: ModuleTracker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tracker = tracker
        self.calls: Counter[Call] = Counter()
        self.phase: Phase = "forward"
        self.alive: dict[int, _Alive] = {}
        self.now = self.most = 0
        self.made_in: dict[int, str] = {}  # the layer of each node of autograd, by its place in forward
        self.latest = "Global"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        out = func(*args, **keywords)
        layer = self.layer()
        if formulas.is_free(func) or func.namespace in ("prim", "profiler"):
            return out
        kind = formulas.family(func)
        self.calls[
            Call(
                str(func.overloadpacket).replace("aten.", ""),
                kind,
                self.phase,
                layer,
                formulas.flops(func, kind, args, keywords, out),
                formulas.moved(args, keywords, out),
                _dtype((args, out)),
            )
        ] += 1
        for tensor in formulas.tensors_in(out):
            self._made(tensor, layer)
        return out

    def layer(self) -> str:
        """Return the innermost module that is at work; in backward, the one that made what is gone through."""
        if self.phase == "backward":
            node: Any = torch._C._current_autograd_node()  # None before the first
            self.latest = self.made_in.get(node._sequence_nr(), self.latest) if node is not None else self.latest
            return self.latest
        name = max(self.tracker.parents, key=lambda name: (name != "Global", name.count("."), len(name), name))
        if self.phase == "forward":
            self.made_in.setdefault(_get_sequence_nr() - 1, name)
        return name

    def _made(self, tensor: Tensor, layer: str) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.alive:
            return
        self.alive[key] = _Alive(storage.nbytes(), layer, self.phase)
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._gone, key).atexit = False

    def _gone(self, key: int) -> None:
        gone = self.alive.pop(key, None)
        self.now -= gone.bytes if gone else 0


class _Step:
    """One step of a workload, followed from its parameters to their update."""

    def __init__(self, workload: Workload, batch: int, precision: Precision, optimiser: Optimiser) -> None:
        self.workload, self.batch, self.precision, self.optimiser = workload, batch, precision, optimiser
        self.most = 0  # alive at once in forward and backward; the first update also makes the optimiser's state

    def counts(self, how: How) -> Counts:
        tracker = ModuleTracker()
        counter = _Counter(tracker)
        model: nn.Module | None = None
        try:
            model = self.workload.build().train()
            inputs = self.workload.batch(self.batch)
            with tracker, counter, _undisturbed():
                saved = self._step(model, inputs, counter)
        except Exception as error:  # the model is the user's: whatever it raises is reported, with what is known
            known = self._known(model, counter, error)
            raise _cannot(known, self.workload, by_faking=how == "traced" and _by_faking(error)) from error
        return self._counts(model, inputs, counter, saved, how)

    def _step(self, model: nn.Module, inputs: tuple[Tensor, ...], counter: _Counter) -> dict[str, int]:
        with autocast(self.precision, "cpu"):
            loss = self.workload.loss(model, inputs)
        saved: dict[str, int] = defaultdict(int)
        for storage in counter.alive.values():
            saved[storage.layer] += storage.bytes
        counter.phase = "backward"
        torch.autograd.backward(loss)
        self.most = counter.most
        counter.phase = "update"
        counter.tracker.parents = {"Global"}
        optimiser_of(self.optimiser, model.parameters(), foreach=True).step()
        return saved

    def _counts(
        self, model: nn.Module, inputs: tuple[Tensor, ...], counter: _Counter, saved: dict[str, int], how: How
    ) -> Counts:
        trained = [weights for weights in model.parameters() if weights.requires_grad]
        own, gradients, entering = _bytes([*model.parameters(), *model.buffers()]), _bytes(trained), _bytes(inputs)
        states = STATES[self.optimiser] * gradients
        return Counts(
            model=self.workload.name,
            batch=self.batch,
            calls=tuple(replace(call, calls=number) for call, number in counter.calls.items()),
            parameters=sum(weights.numel() for weights in trained),
            gradient_bytes=gradients,
            input_bytes=entering,
            activation_bytes=float(sum(saved.values())),
            peak_bytes=own + states + entering + self.most,
            layers=_layers(model, counter, saved),
            how=how,
            notes=self.workload.notes,
        )

    def _known(self, model: nn.Module | None, counter: _Counter, error: Exception) -> dict[str, Any]:
        """Return what is known of a model whose step could not be followed to its end."""
        weights = list(model.parameters()) if model is not None else []
        return {
            "model": self.workload.name,
            "batch": self.batch,
            "parameters": sum(one.numel() for one in weights),
            "parameter_bytes": _bytes(weights),
            "flops_so_far": sum((call.flops or 0.0) * number for call, number in counter.calls.items()),
            "operators_so_far": sum(counter.calls.values()),
            "stopped_in": _place(model, counter),
            "reason": f"{type(error).__name__}: {(str(error).strip() or repr(error)).splitlines()[0]}",
        }


def _place(model: nn.Module | None, counter: _Counter) -> str:
    if model is None:
        return "its making"
    layer = counter.layer()
    return f"{'its batch or loss' if layer == 'Global' else layer} ({counter.phase})"


def _by_faking(error: Exception) -> bool:
    """Return whether an error comes from the lack of numbers, and would not come with them."""
    if isinstance(error, _FAKE_FAILS):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return any("_subclasses" in frame.filename or "symbolic_shapes" in frame.filename for frame in frames)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Split recurrent layers into their products, as one fused operator would have no formula; let torch be still.

    It logs what is reported in one line anyway, and warns of hardware that has nothing to do with this.
    """
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings(action="ignore"), torch.backends.mkldnn.flags(enabled=False):
            yield
    finally:
        log.disabled = before


def _layers(model: nn.Module, counter: _Counter, saved: dict[str, int]) -> tuple[LayerCounts, ...]:
    root = type(model).__name__
    flops: dict[str, float] = defaultdict(float)
    moved: dict[str, float] = defaultdict(float)
    for call, number in counter.calls.items():
        if call.phase != "update":
            flops[call.layer] += (call.flops or 0.0) * number
            moved[call.layer] += call.bytes * number
    kinds = {f"{root}.{name}" if name else root: module for name, module in model.named_modules()}
    names = [name for name in kinds if name in moved] + [name for name in moved if name not in kinds]
    return tuple(
        LayerCounts(
            name.replace("Global", "loss"),
            type(kinds[name]).__name__ if name in kinds else "",
            flops[name],
            moved[name],
            sum(own.numel() for own in kinds[name].parameters(recurse=False)) if name in kinds else 0,
            float(saved.get(name, 0)),
        )
        for name in names
    )


def _bytes(tensors: Iterable[Tensor]) -> float:
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors))


def _dtype(values: Any) -> str:
    tensors = [tensor for tensor in formulas.tensors_in(values) if tensor.is_floating_point()]
    return str(tensors[0].dtype).removeprefix("torch.") if tensors else "int64"
