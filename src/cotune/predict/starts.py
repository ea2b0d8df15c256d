"""How far two starts of one config lie apart in speed: neighbours, clocks, placement.

    ln seconds = ln seconds(config) + sigma s t3            sigma: the usual deviation between starts (`scatter.py`)

Steps within a start know nothing of other starts, so that however long one runs, it is one measurement. sigma has a
prior, narrow on a machine that was seen to be idle and wide where that is not known. Starts of the same config are
evidence of it, and so are residuals of `gaussian`, whose noise it is. Where other processes were busy while starts were
measured, q of them for each core, later ones may find more of them or none. Starts of one sitting, minutes apart, found
the same and do not tell, so that

    sigma^2  becomes  sigma^2 + LOAD^2 ln(1 + q)^2 / k      k: the sittings in which a config was started

One start in a hundred comes late by half.

What passes before the first step, the engine's start and the script's own imports, grows with the others as well:

    seconds = alone (1 + q)^0.55

Every start tells it, also one that was too brief to tell its pace. The next start is expected to find as many others as
the last few did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from cotune.predict.samples import timed
from cotune.predict.scatter import Scatter
from cotune.types import Sample
from cotune.units import counted


@dataclass(frozen=True, slots=True)
class StartsPrior:
    """What other jobs say of the spread between starts.

    Shared: Pollux, the same shape on other nodes 0.03 to 0.05. Idle: MLPerf's 436 systems 0.0025 in the median, NanoGPT
    0.0003 to 0.0024, an H200 with its host to itself 0.00 to 0.01; at worst 0.2.
    """

    shared: float = 0.03  # median of sigma; 0.02 to 0.04 by interval scores of eight sources, each left out in turn
    idle: float = 0.01
    width: float = 1.0  # of ln sigma
    freedom: float = 3.0  # of Student's t
    late: float = 0.01  # share of starts
    late_by: float = float(np.log(1.5))
    quiet: float = 0.1  # other processes busy for each core, below which a machine is idle
    load: float = 0.35  # of ln(1 + q), where q others were busy for each core
    sitting: float = 600.0  # seconds between two starts, from which the load may have changed

    engine: float = 0.25  # deviation of ln seconds until a job's code begins: caches and neighbours
    engine_idle: float = 0.15  # the same on an idle machine: eight and three commands on an H200's host, 0.15 and 0.11
    engine_busy: float = 0.35  # on a busy one at least: of 67 runs of eight jobs beside others, 54 took what 80 % span
    engine_starts: float = 3.0  # that this counts for
    warm: float = 4.0  # times as long that a start takes on an engine that is not up, at least, where some are warm
    slowed: float = 0.55  # of 1 + q: 103 cold engines and 166 start-ups of eight jobs on 2 cores, 0.55 and 0.59
    late_loads: int = 5  # starts that tell how many others the next one finds


PRIOR = StartsPrior()
_ROBUST = 1.4826  # a deviation over the median of sizes
_LEAST = 0.002  # deviation of ln seconds: no clock is better


def between_repeats(samples: Sequence[Sample]) -> Scatter:
    """Return what a machine's load and repeats of configs say of the spread between starts of one sitting."""
    known = timed(samples)
    by_config: dict[object, list[float]] = {}
    for sample in known:
        by_config.setdefault(sample.config, []).append(float(np.log(sample.epoch_seconds or 1.0)))
    repeats = [(len(logs), max(_usual_deviation(logs), _LEAST)) for logs in by_config.values() if len(logs) > 1]
    median = PRIOR.idle if _under_load(known) == 0.0 else PRIOR.shared
    prior = Scatter.prior(median, PRIOR.width, PRIOR.freedom)
    return replace(prior, late=PRIOR.late, late_by=PRIOR.late_by).after(repeats)


def _usual_deviation(logs: Sequence[float]) -> float:
    """Return the deviation of most repeats: one that comes late by much says nothing of the others."""
    return _ROBUST * float(np.median(np.abs(np.array(logs) - np.median(logs))))


def between_sittings(samples: Sequence[Sample]) -> float:
    """Return the spread that other processes cause, which starts of one sitting do not tell."""
    known = timed(samples)
    return (_under_load(known) or 0.0) / float(np.sqrt(_sittings(known)))


def _sittings(known: Sequence[Sample]) -> int:
    """Return in how many sittings the config was started that was started in most; one where times are not known."""
    by_config: dict[object, list[float]] = {}
    for sample in known:
        if sample.started:
            by_config.setdefault(sample.config, []).append(datetime.fromisoformat(sample.started).timestamp())
    breaks = (np.count_nonzero(np.diff(sorted(times)) >= PRIOR.sitting) for times in by_config.values())
    return 1 + int(max(breaks, default=0))


def _under_load(known: Sequence[Sample]) -> float | None:
    """Return the spread that other processes cause, none on a machine that was idle; None where few starts tell it."""
    loads = [sample.load.per_core for sample in known if sample.load is not None]
    if 2 * len(loads) < len(known) or not loads:
        return None
    return PRIOR.load * float(np.log1p(np.median(loads))) if max(loads) >= PRIOR.quiet else 0.0


def at_last_load(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples with the seconds until their first step as they would be beside what ran of late."""
    busy = _last_load(samples)
    return [_beside(sample, sample.load.per_core, busy) if sample.load else sample for sample in samples]


def _last_load(samples: Sequence[Sample]) -> float:
    loads = [sample.load.per_core for sample in samples if sample.load is not None]
    return float(np.median(loads[-PRIOR.late_loads :])) if loads else 0.0


def _beside(sample: Sample, then: float, now: float) -> Sample:
    """Return a start that found so many others busy for each core as it would be beside so many now."""
    factor, terms = ((1 + now) / (1 + then)) ** PRIOR.slowed, sample.terms
    engine, startup = (None if term is None else term * factor for term in (terms.engine, terms.startup))
    return replace(sample, terms=replace(terms, engine=engine, startup=startup))


def engine_start(samples: Sequence[Sample]) -> tuple[float, float]:
    """Return the seconds until the job's code begins in a run, which starts its engine anew, and their spread.

    Of the probes of a profile the first alone does. Runs that follow probes on their engine, are started again or are
    served find it up, and tell nothing of it.
    """
    known = at_last_load(samples)
    probes, runs = _engines(known, "probe"), _engines(known, "run")
    anew = np.log(_cold([*runs, *probes], probes))
    if not len(anew):
        return 0.0, PRIOR.engine
    apart = PRIOR.engine_starts * _usual_spread(known) ** 2 + float(((anew - anew.mean()) ** 2).sum())
    return float(np.exp(np.median(anew))), float(np.sqrt(apart / (PRIOR.engine_starts + len(anew) - 1)))


def _usual_spread(known: Sequence[Sample]) -> float:
    """Return how far two starts of an engine usually lie apart: the further, the more others there may be or not."""
    busy, late = _under_load(known), _last_load(known)
    if busy is None:
        return PRIOR.engine
    busy = max(busy, PRIOR.load * float(np.log1p(late)) if late >= PRIOR.quiet else 0.0)
    return max(PRIOR.engine_busy, float(np.hypot(PRIOR.engine_idle, busy))) if busy else PRIOR.engine_idle


def _engines(known: Sequence[Sample], purpose: str) -> list[float]:
    """Return the seconds until the code of probes or of runs began, where that is known, the quickest first."""
    return sorted(sample.terms.engine for sample in known if sample.terms.engine and sample.purpose == purpose)


def _cold(engines: Sequence[float], probes: Sequence[float]) -> list[float]:
    """Return the starts on an engine that was not up: those nearer the slowest than what a warm one takes.

    Probes after the first are warm; where there is one alone, the quickest start may be.
    """
    if not engines:
        return []
    slowest, warm = max(engines), float(np.median(probes[:-1])) if len(probes) > 1 else min(engines)
    least = np.sqrt(slowest * warm) if slowest >= PRIOR.warm * warm else 0.0
    return [engine for engine in engines if engine >= least]


def warm_start_gain(samples: Sequence[Sample]) -> float:
    """Return the seconds that a start on an engine that is up takes less than one that starts it anew.

    It is so for the probes of a profile after the first, and for the jobs of a service.
    """
    probes = _engines(at_last_load(samples), "probe")
    cold = _cold(probes, probes)
    warm = probes[: len(probes) - len(cold)] or probes[:-1]
    return max(engine_start(samples)[0] - float(np.median(warm)), 0.0) if warm else 0.0


def load_words(samples: Sequence[Sample]) -> str:
    """Return what is to be said of the machine's load while these were measured, if anything is."""
    loads = [sample.load for sample in timed(samples) if sample.load is not None]
    busy = [load for load in loads if load.per_core >= PRIOR.quiet]
    if not busy:
        return ""
    others, cores = round(float(np.median([load.others for load in busy]))), busy[-1].cores
    what = "another process was" if others <= 1 else f"{others} other processes were"
    which = "seconds were" if len(busy) == len(loads) else f"seconds of {len(busy)} of {len(loads)} starts were"
    return f"{which} measured while {what} busy on {counted(cores, 'core')}; another start may be faster or slower"
