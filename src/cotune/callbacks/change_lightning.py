"""What is put into Lightning's Trainer: the callback, its arguments, the batch of its loader, and a checkpoint.

Steps, epochs, accumulation, precision and the devices are arguments of `Trainer`. A batch size and a learning rate are
the script's own: as attributes of the module, its data module or their `hparams`, where Lightning's tuner looks for
them too; the training loader is made anew with the batch, wherever it comes from.
"""

from __future__ import annotations

import os
from functools import wraps
from inspect import signature
from typing import Any

from cotune.callbacks import injected
from cotune.callbacks.together import resumes

_PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
_RATES = ("lr", "learning_rate")
_KEPT = (  # of a loader that is made anew
    *("num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn", "multiprocessing_context"),
    *("generator", "prefetch_factor", "persistent_workers"),
)


def arguments() -> dict[str, Any]:
    """Return what cotune sets of a Trainer's own arguments."""
    numbers = injected.numbers()
    found: dict[str, Any] = {}
    if "steps" in numbers:
        found |= {"max_steps": numbers["steps"], "max_epochs": -1}
    if "epochs" in numbers:
        found |= {"max_epochs": numbers["epochs"], "max_steps": -1}
    if "accumulate" in numbers:
        found["accumulate_grad_batches"] = numbers["accumulate"]
    if (precision := injected.precision()) is not None:
        found["precision"] = _PRECISIONS[precision]
    workers, here = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    return found | ({"devices": here, "num_nodes": workers // here} if workers > 1 else {})


def change_trainer(module: Any) -> None:
    """Give every Trainer cotune's callback and arguments, and every fit its batch, rate and checkpoint."""
    begin, fit = module.Trainer.__init__, module.Trainer.fit

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        injected.trainers.append(self)
        begin(self, *args, **_with_callback(kwargs | arguments()))

    @wraps(fit)
    def fitted(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature(fit).bind(self, *args, **kwargs).arguments
        model, train_dataloaders, datamodule = (
            given.get(name) for name in ("model", "train_dataloaders", "datamodule")
        )
        held = datamodule if datamodule is not None else train_dataloaders
        own = held if hasattr(held, "train_dataloader") else None
        loader = _prepare(model, own, train_dataloaders if own is None else None)
        given |= {} if loader is None else {"train_dataloaders": loader}
        given |= {"ckpt_path": _to_go_on_from(given.get("ckpt_path"))} if injected.reports() else {}
        return fit(**given)

    module.Trainer.__init__, module.Trainer.fit = begun, fitted


def _with_callback(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a Trainer's arguments with cotune's callback among them, unless it is."""
    if not injected.reports():
        return kwargs
    from cotune.callbacks.lightning import Report

    given = kwargs.get("callbacks") or []
    own = list(given) if isinstance(given, list | tuple) else [given]
    has = any(isinstance(one, Report) for one in own)
    return kwargs | {"callbacks": own if has else [*own, Report(required=False)]}


def _prepare(model: Any, data: Any, loader: Any) -> Any:
    """Set the batch and the rate where a module and its data hold them; return the loader that was given, changed."""
    numbers = injected.numbers()
    holders = [holder for one in (model, data) if one is not None for holder in (one, getattr(one, "hparams", {}))]
    if "lr" in numbers and not sum(_set(holders, name, numbers["lr"]) for name in _RATES):
        raise AttributeError(
            "cotune cannot set the learning rate of this script: let its module have an attribute lr or learning_rate "
            "(or hparams of that name), or leave out lr of cotune.yaml, or give the command {lr}"
        )
    if "batch_size" not in numbers:
        return loader
    batch = int(numbers["batch_size"])
    _set(holders, "batch_size", batch)
    if loader is not None:
        return _rebatched(loader, batch)
    source = data if data is not None else model
    make = source.train_dataloader
    source.train_dataloader = lambda: _rebatched(make(), batch)
    return None


def _set(holders: list[Any], name: str, value: float) -> bool:
    """Set an attribute or entry wherever it is; say whether it was anywhere."""
    found = False
    for holder in holders:
        if isinstance(holder, dict) and name in holder:
            holder[name] = value
        elif not isinstance(holder, dict) and hasattr(holder, name):
            setattr(holder, name, value)
        else:
            continue
        found = True
    return found


def _rebatched(loader: Any, batch: int) -> Any:
    """Return a loader of the same data with another batch."""
    from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

    if getattr(loader, "batch_size", None) == batch:
        return loader
    if not isinstance(loader, DataLoader) or loader.batch_size is None:
        raise TypeError(
            f"cotune cannot set the batch of a {type(loader).__name__} with batches of its own for training: "
            "give the command {batch_size}"
        )
    kept = {name: getattr(loader, name) for name in _KEPT if hasattr(loader, name)}
    plain = isinstance(loader.sampler, RandomSampler | SequentialSampler) or isinstance(loader.dataset, IterableDataset)
    order: dict[str, Any] = {} if isinstance(loader.dataset, IterableDataset) else {"sampler": loader.sampler}
    if plain and order:
        order = {"shuffle": isinstance(loader.sampler, RandomSampler)}
    return DataLoader(loader.dataset, batch_size=batch, **order, **kept)


def _to_go_on_from(asked: Any) -> Any:
    """Return the checkpoint to go on from: cotune's own, or one that the script names by its path."""
    from cotune.callbacks.lightning import newest

    own = resumes()
    if own is not None and (found := newest(own)) is not None:
        return str(found)
    return None if asked in ("last", "hpc") else asked
