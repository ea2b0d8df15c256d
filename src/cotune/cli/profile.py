"""`cotune profile`: measure a few short runs within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotune.cli._options import (
    Axis,
    BatchSize,
    Command,
    Deadline,
    Engine,
    Examples,
    File,
    Json,
    MaxEpochs,
    Name,
    NoHistory,
    Pattern,
    Seed,
    StoreUrl,
    Target,
    Timeout,
    Workers,
)

if TYPE_CHECKING:
    from cotune.config import Settings
    from cotune.errors import CotuneError
    from cotune.profile import Limits
    from cotune.types import Sample


def profile(
    command: Command = None,
    budget: Annotated[str | None, typer.Option("--budget", help="What measuring may take: 90s, 5m.")] = None,
    max_samples: Annotated[int, typer.Option("--max-samples", min=1, help="Most starts.")] = 16,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed configs again.")] = False,
    for_goal: Annotated[
        bool, typer.Option("--for-goal", help="Measure only what decides for this target and deadline.")
    ] = False,
    layers: Annotated[
        str | None, typer.Option("--layers", help="Measure this network's layers for cotune place: ctrdnn(width=2048).")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--type", help="With --layers: cpu(price_per_hour=0.04, limit=12). May be given several times."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="With --layers: the file to write.")] = Path(
        "profile.json"
    ),
    random_layers: Annotated[
        int | None,
        typer.Option(
            "--random-layers", min=1, help="Time so many random layers of each kind here instead of a job, into a CSV."
        ),
    ] = None,
    layer_kinds: Annotated[
        str, typer.Option("--kinds", help="With --random-layers: which: dense, conv, pool, recurrent.")
    ] = "dense,conv,pool,recurrent",
    into: Annotated[Path, typer.Option("--into", help="With --random-layers: the folder of their tables.")] = Path(
        "layers"
    ),
    no_history: NoHistory = False,
    workers: Workers = None,
    batch_size: BatchSize = None,
    axis: Axis = None,
    target: Target = None,
    deadline: Deadline = None,
    max_epochs: MaxEpochs = None,
    examples: Examples = None,
    pattern: Pattern = None,
    timeout: Timeout = None,
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    engine: Engine = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure a job with a few short real runs, within a budget. Or the layers of a network, or random layers."""
    if layers is not None:
        from cotune.cli._layers import profile_layers

        profile_layers(layers, kinds or [], output, units=workers, batches=batch_size, budget=budget, json=json)
        return
    if random_layers is not None:
        from cotune.cli._random_layers import time_layers

        time_layers(random_layers, layer_kinds, into, budget, seed=seed, json=json)
        return
    from cotune.cli._forecasting import doubt_target, recalled, with_model
    from cotune.cli._measuring import measure
    from cotune.cli._options import load_settings, open_store, search_overrides
    from cotune.cli._output import emit_json, say
    from cotune.documents import profile_document, sample_document
    from cotune.profile import Limits
    from cotune.units import duration

    settings = load_settings(
        file,
        {
            "run": command,
            "name": name,
            "examples": examples,
            "pattern": pattern,
            "target": target,
            "deadline": deadline,
            "max_epochs": max_epochs,
            "timeout": timeout,
            "engine": engine,
            "search": search_overrides(workers, batch_size, axis),
            "budget": {"profile": budget} if budget else None,
        },
    )
    limits = Limits(settings.profile_seconds, max_samples, settings.timeout)
    with open_store(store) as kept:
        settings = with_model(settings, kept)
        known = list(kept.samples(settings.job))
        tried = [sample for sample in known if not (sample.failed and retry_failed)]
        old = recalled(settings, kept, wanted=not no_history)
        new = measure(settings, kept, tried, limits, for_goal=for_goal, history=old, seed=seed)
    usable = [sample for sample in (*known, *new) if sample.epoch_seconds is not None]
    doubt_target(settings, [*known, *new])
    if not usable:
        raise _nothing_learnt(settings, known, new, limits)
    if json:
        documents = [sample_document(sample) for sample in new]
        emit_json(
            "profile", {"job": settings.job.name, "samples": documents, "profile": profile_document([*known, *new])}
        )
        return
    _table(settings.job.metric, new)
    failed = sum(sample.failed for sample in new)
    spent = sum(sample.device_seconds for sample in new)
    say(
        f"measured {len(new) - failed} new samples in {duration(sum(sample.seconds for sample in new))} "
        f"({spent:.3g} device-seconds)" + (f", {failed} failed" if failed else "") + f"; {len(usable)} usable in all"
    )
    if skipped := len({sample.config for sample in tried if sample.failed} - {sample.config for sample in usable}):
        say(f"{skipped} configs failed before and were not tried again; --retry-failed tries them")
    say("next: cotune plan --target ... --deadline ...")


def _nothing_learnt(settings: Settings, known: list[Sample], new: list[Sample], limits: Limits) -> CotuneError:
    from cotune.errors import EngineError, OverBudget
    from cotune.units import duration

    failures = [sample for sample in new if sample.failed]
    if failures:
        last = failures[-1]
        return EngineError(f"every start of {settings.job.name} failed: {last.failure}; its logs are in {last.folder}")
    if not new and any(sample.failed for sample in known):
        return EngineError(f"every config of {settings.job.name} failed before; --retry-failed tries them again")
    tried = f"{len(new)} starts within {duration(limits.seconds)}"
    return OverBudget(f"nothing could be learnt of {settings.job.name}: {tried}; allow a larger --budget")


def _table(metric: str, samples: list[Sample]) -> None:
    from cotune.cli._output import table
    from cotune.units import number

    columns = ("workers", "batch", "global batch", "epochs", "s/epoch", metric, "start-up s", "outcome")
    rows = [
        (
            sample.config.workers,
            sample.config.batch_size,
            sample.config.global_batch,
            f"{sample.epochs:.3g}",
            number(sample.epoch_seconds, 3) if sample.epoch_seconds is not None else "",
            number(sample.accuracy) if sample.accuracy is not None else "",
            number(sum(sample.terms.known().get(name, 0.0) for name in ("engine", "startup")), 2),
            sample.failure or sample.warning or "ok",
        )
        for sample in samples
    ]
    if rows:
        table(columns, rows)
