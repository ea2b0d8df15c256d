"""What jobs like this one showed before: old samples, trusted less than the job's own.

Jobs are alike when they run the same command, one that differs only in its data, or any that trains
the same model (jobs that name theirs are compared by what a step of it counts). What else differs
decides what their samples can say:

    differs                         seconds per epoch                        accuracy
    the folder                      as they were                             as it was
    engine, machine, cluster        x one factor, from the first own probe   as it was
    the data                        x examples / theirs, and that factor     nothing
    the command, model the same     x examples / theirs, and that factor     nothing
    learning rate, metric, env      as they were                             nothing

The factor is the median of own seconds over what a law through the old ones expects. Old
samples make way for own ones of the same config or recipe, and forecasts that rest on them are
wider:

    spread^2 += doubt^2            doubt of a factor that was never measured
              += (doubt' / sqrt k)^2     of one that k own configs have shown
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.forecast import Forecaster, Outlook
from cotune.predict.learn import forecaster
from cotune.predict.samples import trusted
from cotune.safety import redact
from cotune.space import Configs
from cotune.types import Cluster, Job, Sample
from cotune.units import counted

UNKNOWN_DOUBT = 0.5  # of ln seconds on another machine that was never measured
SAME_MACHINE_DOUBT = 0.15
FACTOR_DOUBT = 0.15  # of a factor that one own config has shown
ACCURACY_DOUBT = 0.02  # of the range of accuracies
_DATA = re.compile(r"--?(data|dataset|data[-_](dir|path|root|set)|train[-_]?(data|file|set)?)(=.*)?$")


@dataclass(frozen=True, slots=True)
class Likeness:
    """What the samples of another job can say of this one, and how that job differs."""

    differs: str
    scale: float  # of seconds per epoch
    same_pace: bool  # the same program on the same machine
    accuracy: bool


@dataclass(frozen=True, slots=True)
class PastSample:
    """A sample of another job, as this one would have measured it."""

    sample: Sample
    same_pace: bool


def likeness(job: Job, other: Job) -> Likeness | None:
    """Return how another job (its secrets masked) is like this one, or None when it is not."""
    own = redact.job(job)
    same_command = own.command == other.command
    same_program = same_command or _without_data(own.command) == _without_data(other.command)
    if not own.command or not (same_program or own.same_model(other)):
        return None
    same_data = same_command and own.examples == other.examples
    same_recipe = (own.metric, own.better, own.lr, own.env) == (other.metric, other.better, other.lr, other.env)
    same_machine = own.where == other.where
    parts = [] if same_program else ["of the same model by another command"]
    parts += [] if same_machine else [f"on {other.where or 'another engine'}"]
    parts += ["with other data"] if same_program and not same_data else []
    parts += [] if same_recipe else ["with another rate, metric or environment"]
    parts += [] if own.folder == other.folder else [f"in {other.folder}"]
    scale = own.examples / other.examples if own.examples and other.examples else 1.0
    differs = ", ".join(parts) or "of another name"
    # Another program has another pace, and keeps other things in memory, even on the same machine.
    return Likeness(differs, scale, same_machine and same_program, same_data and same_recipe)


def _without_data(command: Sequence[str]) -> list[str]:
    """Return a command without the values of the options that name its data."""
    kept: list[str] = []
    for place, word in enumerate(command):
        after_option = place > 0 and _DATA.fullmatch(command[place - 1]) is not None and "=" not in command[place - 1]
        kept.append("" if after_option else word.partition("=")[0] if _DATA.fullmatch(word) else word)
    return kept


@dataclass(frozen=True)
class History:
    """The old samples of jobs like this one."""

    job: Job
    cluster: Cluster
    old: tuple[PastSample, ...]
    told: tuple[str, ...] = ()

    @classmethod
    def of(cls, job: Job, cluster: Cluster, others: Sequence[tuple[Job, Sequence[Sample]]]) -> History:
        """Return what the samples of other jobs say of this one."""
        old: list[PastSample] = []
        told: list[str] = []
        for other, samples in others:
            alike = likeness(job, other)
            usable = [_as_own(sample, alike) for sample in trusted(samples)] if alike else []
            usable = [sample for sample in usable if _says_something(sample, alike)]
            if alike and usable:
                old += [PastSample(sample, alike.same_pace) for sample in usable]
                told.append(f"{counted(len(usable), 'sample')} of {other.name} {alike.differs}")
        return cls(job, cluster, tuple(old), tuple(told))

    def __bool__(self) -> bool:
        return bool(self.old)

    def blended(self, own: Sequence[Sample]) -> list[Sample]:
        """Return the own samples with those old ones that say something else, at the pace of the own ones."""
        timed = {sample.config for sample in own if is_timed(sample)}
        trained = {sample.config.global_batch for sample in own if sample.curve}
        factor = self._factor(own)
        added = []
        for one in self.old:
            sample = one.sample
            keeps_time = is_timed(sample) and sample.config not in timed
            pace = sample.epoch_seconds * (1.0 if one.same_pace else factor) if sample.epoch_seconds else None
            curve = () if sample.config.global_batch in trained else sample.curve
            accuracy = curve[-1].accuracy if curve else None
            if keeps_time or curve or sample.out_of_memory:
                added.append(
                    replace(sample, epoch_seconds=pace if keeps_time else None, curve=curve, accuracy=accuracy)
                )
        return [*added, *own]

    def _factor(self, own: Sequence[Sample]) -> float:
        """Return how much slower this job is than old ones on other machines, as far as own samples tell."""
        elsewhere = [one.sample for one in self.old if not one.same_pace and is_timed(one.sample)]
        here = [sample for sample in own if is_timed(sample)]
        if not elsewhere or not here:
            return 1.0
        law = forecaster(self.job, elsewhere, self.cluster, accuracy=None)
        expected = law(Configs.of([sample.config for sample in here]), 1).epoch_seconds
        return float(np.median([sample.epoch_seconds or 0.0 for sample in here] / expected))

    def doubted(self, forecast: Forecaster, own: Sequence[Sample]) -> Forecaster:
        """Return a forecaster that trusts what rests on old samples less, and says so."""
        timed = {sample.config for sample in own if is_timed(sample)}
        trained = {sample.config.global_batch for sample in own if sample.curve}
        shown = [point.accuracy for sample in self.blended(own) for point in sample.curve]
        span = max(shown) - min(shown) if shown else 0.0
        doubts = _Doubts(self._doubt(len(timed)), ACCURACY_DOUBT * span)

        def doubting(configs: Configs, max_epochs: int) -> Outlook:
            return _widened(forecast(configs, max_epochs), timed, trained, doubts, self._note(len(timed)))

        return doubting

    def _doubt(self, configs: int) -> float:
        """Return the spread of ln seconds that comes from trusting old samples, with so many own configs."""
        if not any(is_timed(one.sample) for one in self.old):
            return 0.0
        if configs:
            return FACTOR_DOUBT / float(np.sqrt(configs))
        return SAME_MACHINE_DOUBT if all(one.same_pace for one in self.old) else UNKNOWN_DOUBT

    def _note(self, configs: int) -> str:
        own = f"with {counted(configs, 'config')} of its own" if configs else "without a measurement of its own"
        return f"from history, {own}: {'; '.join(self.told)}"


def _as_own(sample: Sample, alike: Likeness) -> Sample:
    """Return an old sample as far as it concerns this job."""
    seconds = sample.epoch_seconds * alike.scale if sample.epoch_seconds else None
    curve = sample.curve if alike.accuracy else ()
    accuracy = sample.accuracy if alike.accuracy else None
    peak, limit = (sample.peak_bytes, sample.limit_bytes) if alike.same_pace else (None, None)
    return replace(
        sample,
        epoch_seconds=seconds,
        curve=curve,
        accuracy=accuracy,
        purpose="probe",
        folder="",
        peak_bytes=peak,
        limit_bytes=limit,
    )


def _says_something(sample: Sample, alike: Likeness | None) -> bool:
    told = is_timed(sample) or (bool(sample.curve) and not sample.failed)
    return told or (sample.out_of_memory and alike is not None and alike.same_pace)


def is_timed(sample: Sample) -> bool:
    """Whether a sample tells seconds per epoch."""
    return sample.tells_pace


@dataclass(frozen=True, slots=True)
class _Doubts:
    """The spread that comes from trusting old samples: of ln seconds, and of accuracy."""

    seconds: float
    accuracy: float


def _widened(
    outlook: Outlook, timed: Collection[object], trained: Collection[int], doubts: _Doubts, note: str
) -> Outlook:
    """Return an outlook whose spreads are wider wherever this job has not measured for itself."""
    own = np.array([config in timed for config in outlook.configs], dtype=bool)
    source = outlook.seconds_source.copy()
    source[~own & (source == "measured")] = "extrapolated"
    if not timed:
        source[:] = "assumed"
    wider = replace(
        outlook,
        spread=np.where(own, outlook.spread, np.hypot(outlook.spread, doubts.seconds)),
        seconds_source=source,
        notes=(*outlook.notes, note),
    )
    if (learning := outlook.learning) is None:
        return wider
    first = np.unique(learning.recipe, return_index=True)[1]
    foreign = ~np.isin(outlook.configs.global_batch[first], list(trained))
    sources = learning.source.copy()
    sources[foreign & (sources == "measured")] = "extrapolated"
    extra = np.where(foreign, doubts.accuracy, 0.0)[:, None, None]
    middle = np.median(learning.shown, axis=1, keepdims=True)
    own = learning.shown.std(axis=1, keepdims=True)
    ratio = np.hypot(own, extra) / np.maximum(own, np.finfo(float).tiny)
    shown = middle + np.where(extra > 0, ratio, 1.0) * (learning.shown - middle)
    return replace(wider, learning=replace(learning, shown=shown, source=sources))
