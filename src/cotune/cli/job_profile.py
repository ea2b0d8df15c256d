"""Measuring a job for `cotune profile`: within its limits, and what that showed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotune.cli.doubts import doubt_axes, doubt_batches, doubt_target, doubt_unit
from cotune.cli.forecasting import goal_flags, recalled, with_model
from cotune.cli.measuring import measure, nothing_learnt
from cotune.cli.options import open_store
from cotune.cli.output import emit_json, say, table
from cotune.documents import config_cells, config_columns, head, profile_document, sample_document
from cotune.jobfile.metric import as_measured
from cotune.jobfile.settings import Settings
from cotune.probe.measure import Limits, least_seconds
from cotune.types import Sample
from cotune.units import counted, duration, number


@dataclass(frozen=True, slots=True)
class ProfileFlags:
    """How a job is to be measured: with how many starts, for its goal alone or all over, and from what."""

    max_samples: int
    for_goal: bool
    retry_failed: bool
    with_history: bool
    seed: int


def profile_job(settings: Settings, store: str | None, flags: ProfileFlags, *, json: bool) -> None:
    """Measure a job and show what is new."""
    doubt_batches(settings.job, settings.space.configs())
    limits = Limits(settings.profile_seconds, flags.max_samples, settings.timeout)
    with open_store(store) as kept:
        settings = with_model(as_measured(settings, kept), kept)
        doubt_unit(settings)
        known = list(kept.samples(settings.job))
        tried = [sample for sample in known if not (sample.failed and flags.retry_failed)]
        old = recalled(settings, kept, wanted=flags.with_history)
        new = measure(settings, kept, tried, limits, for_goal=flags.for_goal, history=old, seed=flags.seed)
    everything = [*known, *new]
    doubt_target(settings, everything)
    doubt_axes(settings.job, everything)
    if not any(sample.epoch_seconds is not None for sample in everything):
        raise nothing_learnt(settings, known, new, limits)
    if json:
        documents = [sample_document(sample) for sample in new]
        emit_json("profile", {"job": settings.job.name, "samples": documents, "profile": profile_document(everything)})
        return
    if new:
        _table(settings.job.metric, new)
    sum_up(tried, new, everything, limits)
    say(f"next: cotune plan{goal_flags(settings) or ' --target ... --deadline ...'}")


def sum_up(tried: Sequence[Sample], new: Sequence[Sample], everything: Sequence[Sample], limits: Limits) -> None:
    """Say what a profile measured, or why it measured nothing."""
    usable = [sample for sample in everything if sample.epoch_seconds is not None]
    if new:
        failed = sum(sample.failed for sample in new)
        good = sum(sample.epoch_seconds is not None and not sample.failed for sample in new)
        others = {"failed": failed, "cut short": len(new) - failed - good}
        spent = sum(sample.device_seconds for sample in new)
        took = f"{duration(sum(sample.seconds for sample in new))} ({spent:.3g} device-seconds)"
        rest = "".join(f", {count} {what}" for what, count in others.items() if count)
        say(f"measured {counted(good, 'new sample')} in {took}{rest}; {len(usable)} usable in all")
    elif limits.seconds < least_seconds(tried):
        say(f"measured nothing: even a start takes {duration(least_seconds(tried))}, more than the budget")
    else:
        say(f"measured nothing, as no probe would tell enough for its cost; {len(usable)} samples are usable")
    if skipped := len(
        {sample.config for sample in tried if sample.failed and not sample.unheard}
        - {sample.config for sample in usable}
    ):
        say(f"{counted(skipped, 'config')} failed before, not tried again; --retry-failed tries them")


def _table(metric: str, samples: list[Sample]) -> None:
    shown = config_columns([sample.config for sample in samples])
    rows = [
        (
            *config_cells(sample.config, shown),
            f"{sample.epochs:.3g}",
            number(sample.epoch_seconds, 3) if sample.epoch_seconds is not None else "",
            number(sample.accuracy) if sample.accuracy is not None else "",
            number(sum(sample.terms.known().get(name, 0.0) for name in ("engine", "startup")), 2),
            sample.failure or sample.warning or "ok",
        )
        for sample in samples
    ]
    table((*head(shown), "epochs", "s/epoch", metric, "start-up s", "outcome"), rows)
