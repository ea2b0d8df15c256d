"""What is put into Accelerate: steps of the optimiser and what `accelerator.log` logs are told, and arguments are set.

Such a script has a loop of its own. Its batch, learning rate and length are its own flags, so they reach it through
placeholders; accumulation and precision are arguments of `Accelerator`. Where the script is told to stop, its state is
saved by `save_state` and it leaves: at a multiple of all its ranks, but without what it would have saved at its end.

    epochs = steps x accumulation / batches of its training loader        the first that is shuffled, else the first
"""

from __future__ import annotations

import math
import weakref
from pathlib import Path
from typing import Any

from cotune.callbacks import evaluated, injected
from cotune.callbacks.together import Ballot, Keeper
from cotune.worker.report import report, warn

_LEFT = "it was ended when it was told to stop, without what it saves at its end; its state is in {}"


def arguments() -> dict[str, Any]:
    """Return what cotune sets of an Accelerator's own arguments."""
    numbers, precision = injected.numbers(), injected.precision()
    found: dict[str, Any] = {}
    if "accumulate" in numbers:
        found["gradient_accumulation_steps"] = numbers["accumulate"]
    if precision is not None:
        found["mixed_precision"] = "no" if precision == "fp32" else precision
    return found


def change_accelerator(module: Any) -> None:
    """Let an Accelerator that the script makes take the config's numbers and tell what it does."""
    begin, prepare, log = module.Accelerator.__init__, module.Accelerator.prepare, module.Accelerator.log

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        own = not injected.trainers  # a Trainer sets its own
        begin(self, *args, **(kwargs | arguments() if own else kwargs))
        if own and injected.reports():
            _loops[self] = _Loop(self)

    def prepared(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = prepare(self, *args, **kwargs)
        if self in _loops:
            _loops[self].begin()
        return done

    def logged(self: Any, values: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        done = log(self, values, *args, **kwargs)
        if self in _loops:
            _loops[self].tell(values)
        return done

    module.Accelerator.__init__, module.Accelerator.prepare, module.Accelerator.log = begun, prepared, logged


class _Loop:
    """The loop of a script, as its Accelerator sees it."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = weakref.proxy(accelerator)
        self._steps = 0
        self._met = False
        self._ballot, self._keeper = Ballot(accelerator.device), Keeper()

    def begin(self) -> None:
        """Hear the steps of the first optimiser that was prepared."""
        optimisers = self._accelerator._optimizers
        if not optimisers or getattr(optimisers[0].step, "tells_cotune", False):
            return
        first, step = optimisers[0], optimisers[0].step

        def stepped(*args: Any, **kwargs: Any) -> Any:
            done = step(*args, **kwargs)
            if first.gradient_state.sync_gradients:
                self._stepped()
            return done

        stepped.tells_cotune = True  # type: ignore[attr-defined]  # so that it is not heard twice
        first.step = stepped
        report(**self._progress())

    def tell(self, values: dict[str, Any]) -> None:
        """Tell what was logged, by its names."""
        numbers = {name: float(value) for name, value in values.items() if _is_number(value)}
        for own in ("epoch", "step", "tokens"):
            numbers.pop(own, None)
        if numbers:
            self._met |= report(**self._progress(), **{**numbers, **evaluated(numbers, None, required=False)})

    def _stepped(self) -> None:
        self._steps += 1
        said = report(**self._progress())
        if self._ballot.stops(self._steps, said or self._met):
            report(**self._progress(), checkpoint=self._keeper.keep(self._save))
            raise SystemExit(0)

    def _save(self, into: Path) -> None:
        where = into / f"step_{self._steps}"
        self._accelerator.save_state(str(where))
        if self._accelerator.is_main_process:
            warn(_LEFT.format(where))

    def _progress(self) -> dict[str, float]:
        """Return the steps done, and the epochs where a training loader says how long one is."""
        done = {"step": float(self._steps)}
        if (batches := self._batches()) is not None:
            done["epoch"] = self._steps * self._accelerator.gradient_accumulation_steps / batches
        return done

    def _batches(self) -> int | None:
        from torch.utils.data import RandomSampler

        loaders = self._accelerator._dataloaders
        shuffled = (one for one in loaders if isinstance(_sampler(one), RandomSampler))
        training = next(shuffled, loaders[0] if loaders else None)
        try:
            return len(training) if training is not None else None
        except TypeError:
            return None


def _sampler(loader: Any) -> Any:
    """Return what orders a loader's examples, below the batches that Accelerate cuts for this rank."""
    batches: Any = getattr(loader, "batch_sampler", None)
    while hasattr(batches, "batch_sampler"):
        batches = batches.batch_sampler
    return getattr(batches, "sampler", None)


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


_loops: weakref.WeakKeyDictionary[Any, _Loop] = weakref.WeakKeyDictionary()
