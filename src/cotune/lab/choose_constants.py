"""Choose the constants of probing and prediction by leaving out one source of data at a time.

    python -m cotune.lab.choose_constants RECORDINGS... [--probing [--every N]] [--write]

A source is who measured: Pollux, MLPerf, Zeus, Gavel, DLPerf, ..., and our own recordings. Recordings of one source are
alike, so that a constant chosen on some of them says little of the others; a source left out does. For every constant
and source the table shows the score of that source by the value that is best on all *other* sources (left out) beside
the score by the value that is best on all (in sample), and by the one shipped. Scores are means, lower is better:

    luck      interval scores of one run's ln epochs to a target, given another run of the same recipe (50, 80, 90 %)
    seconds   interval score of the 80 % interval of configs not measured, from 4, 8 and 16 samples of the design, among
              intervals that hold at least 75 % in every source from 8 and from 16
    probing   score of `bench planning` with profiling (--probing: it takes minutes)

`--write` puts the values that are best on all sources, each weighing the same, into `predict/constants.py`. Runs of
MLPerf are tuned and annealed: another population than a user's script. They are shown, and have no part in the choice
of luck.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotune.lab.bench.planning import PlanningRow, bench_planning
from cotune.lab.bench.prediction import AT_LEAST_MORE, designed
from cotune.lab.bench.tasks import grouped, recording_folders
from cotune.predict import seconds as law_of_seconds
from cotune.predict.constants import CONSTANTS, Constants
from cotune.predict.luck import PRIOR
from cotune.predict.predictors.gaussian import Gaussian
from cotune.predict.scatter import Scatter
from cotune.predict.starts import starts
from cotune.probe import active
from cotune.recording import Recording, read
from cotune.recording.truth import RecordedCurve
from cotune.types import Z90, Floats

TUNED = ("mlperf",)  # another population: no part in the choice of luck
PUBLISHED = ("dlperf", "elasticflow", "gavel", "llm", "mlperf", "pollux", "shockwave", "vtrain", "zeus")
LEVELS = (0.4, 0.6, 0.8, 0.95)  # quantiles of all accuracies, at which runs are compared
COUNTS = (4, 8, 16)
FIRST_HELD = 8  # samples, from which intervals must hold in every source
LUCK = tuple(itertools.product((0.03, 0.05, 0.08, 0.12, 0.18), (0.5, 0.7, 0.9, 1.2)))
SECONDS = tuple(itertools.product((0.0, 0.5, 1.0, 1.5), (0.75, 0.87, 1.0, 1.2), (0.8, 0.9, 1.0, 1.1, 1.3)))
PROBING = tuple(itertools.product((0.6, 0.8, 1.0, 1.4), (0.05, 0.1, 0.2)))
MISSED = 0.2  # what an 80 % interval may miss
LEAST_HELD = 0.75  # of a source's configs, by an interval that is told to hold 80 %

Values = tuple[float, ...]
Scores = dict[str, dict[Values, float]]  # of every source, for every candidate


def source_of(name: str) -> str:
    """Return who measured a recording."""
    first = name.split("-", maxsplit=1)[0]
    return {"shockwave": "gavel"}.get(first, first) if first in PUBLISHED else "own"


@dataclass(frozen=True)
class ConstantChoice:
    """Constants that are chosen together: their names, the score of every candidate, and who has no part in it."""

    names: tuple[str, ...]
    scores: Scores
    aside: tuple[str, ...] = ()
    held: Scores | None = None  # share of what intervals hold, where a candidate is only one whose do in every source

    @property
    def voters(self) -> list[str]:
        return [source for source in self.scores if source not in self.aside]

    def best(self, without: str | None = None) -> Values:
        """Return the candidate that is best on average over sources, one of them left out."""
        sources = [source for source in self.voters if source != without] or self.voters
        candidates = list(next(iter(self.scores.values())))
        if self.held is not None:
            true = [one for one in candidates if min(self.held[source][one] for source in sources) >= LEAST_HELD]
            candidates = true or candidates
        return min(candidates, key=lambda one: float(np.mean([self.scores[source][one] for source in sources])))

    def rows(self) -> Iterator[tuple[str, Values, float, float, float]]:
        """Yield each source with what the others chose, and its scores: left out, in sample, as shipped."""
        now = tuple(getattr(CONSTANTS, name) for name in self.names)
        for source, own in self.scores.items():
            others = self.best(source)
            nearest = min(own, key=lambda one: sum(abs(a - b) for a, b in zip(one, now, strict=True)))
            yield source, others, own[others], own[self.best()], own[nearest]


def luck_scores(recordings: Mapping[str, Sequence[Recording]]) -> Scores:
    """Return how well each prior foretells one run from another."""
    found: Scores = {}
    for source, some in recordings.items():
        curves = {str(one.curves): one for one in some if one.curves}.values()  # the same on several devices count once
        apart = np.array([gap for one in curves for gap in gaps(one)])
        if len(apart):
            found[source] = {prior: luck_score(prior, apart) for prior in LUCK}
    return found


def gaps(recording: Recording) -> Iterator[float]:
    """Yield how far apart in ln epochs two runs of a recipe reach a target, for every pair."""
    sign = recording.job.sign
    runs = [[_best(curve, sign) for curve in seeds] for seeds in recording.all_curves]
    values = np.concatenate([best for seeds in runs for _, best in seeds]) if runs else np.empty(0)
    for level in np.quantile(values, LEVELS) if len(values) else ():
        for seeds in runs:
            met = [float(np.interp(level, best, logs)) for logs, best in seeds if best[0] < level <= best[-1]]
            yield from (abs(one - other) for one, other in itertools.combinations(met, 2))


def _best(curve: RecordedCurve, sign: int) -> tuple[Floats, Floats]:
    """Return the logarithms of a curve's epochs, and the best so far after each."""
    epochs, values = np.array(curve.epochs), np.array(curve.accuracy)
    return np.log(epochs[epochs > 0]), np.maximum.accumulate(sign * values[epochs > 0])


def luck_score(prior: Values, apart: Floats) -> float:
    """Return the mean interval score of the distance between two runs by a prior of sigma."""
    median, width = prior
    scatter = Scatter.prior(median, width, PRIOR.freedom)
    halves = {missed: scatter.quantile(1 - missed / 2, 1) for missed in (0.5, 0.2, 0.1)}
    scores = [2 * half + 2 / missed * np.maximum(apart - half, 0.0).mean() for missed, half in halves.items()]
    return float(np.mean(scores))


def seconds_scores(recordings: Mapping[str, Sequence[Recording]]) -> tuple[Scores, Scores]:
    """Return the interval score of every source for each doubt of a process and of few samples, and the least held.

    That is the share of configs inside their interval from 8 or from 16 samples, whichever is lower.
    """
    scores: Scores = {}
    held: Scores = {}
    for source, some in recordings.items():
        tried = {n: [one for recording in some if (one := misses(recording, n)) is not None] for n in COUNTS}
        every = [one for by_count in tried.values() for one in by_count]
        if not every:
            continue
        scores[source] = {values: float(np.mean([one.score(values) for one in every])) for values in SECONDS}
        enough = [by_count for n, by_count in tried.items() if by_count and n >= FIRST_HELD] or [every]
        held[source] = {
            values: min(float(np.mean([one.held(values) for one in by_count])) for by_count in enough)
            for values in SECONDS
        }
    return scores, held


@dataclass(frozen=True)
class Misses:
    """Errors of configs that were not measured, with what the process said of each and of those it was shown."""

    errors: Floats
    spread: Floats
    surprises: Floats
    usual_error: float
    starts: Scatter

    def half(self, values: Values) -> Floats:
        """Return half the width of an 80 % interval by these constants, in logarithms."""
        few, surprise, least = values
        sizes = np.minimum(np.abs(self.surprises), law_of_seconds._WILD) / surprise
        others = law_of_seconds._OTHER_JOBS
        factor = (1 + few / len(sizes)) * np.sqrt((others + float((sizes**2).sum())) / (others + len(sizes)))
        spread = np.hypot(factor * self.spread, self.starts.deviation)
        return np.asarray(Z90 * np.maximum(spread, least * self.usual_error))

    def score(self, values: Values) -> float:
        """Return the interval score."""
        half = self.half(values)
        return float((2 * half + 2 / MISSED * np.maximum(self.errors - half, 0.0)).mean())

    def held(self, values: Values) -> float:
        """Return the share of configs inside their interval."""
        return float((self.errors <= self.half(values)).mean())


def misses(recording: Recording, count: int) -> Misses | None:
    """Return the errors of configs that were not measured, with what the process said of each."""
    if not recording.times or len(recording.space(with_accuracy=False)) < count + AT_LEAST_MORE:
        return None
    seen, truth = recording.halves()
    samples = designed(seen, count, 0)
    model = Gaussian(seen.cluster.devices[0].per_node).fit_seconds(seen.job, samples)
    configs, known = truth.space(with_accuracy=False).configs(), {sample.config for sample in samples}
    unseen = configs.take(np.array([config not in known for config in configs], dtype=bool))
    errors = np.abs(np.log(truth.epoch_seconds(unseen) / model.predict(unseen)))
    usual = law_of_seconds.usual_error(model.errors)
    return Misses(errors, model.outlook(unseen)[1], model.surprises, usual, starts(samples, usual))


def planned_with(values: Values, folders: Sequence[Path], every: int) -> tuple[PlanningRow, ...]:
    """Return each n-th goal as `joint` answers it with another weight of a price and another least gain."""
    before = active.WEIGHT, active.LEAST_GAIN
    active.WEIGHT, active.LEAST_GAIN = values
    try:
        return bench_planning(folders, ["joint"], every=every, processes=1).rows
    finally:
        active.WEIGHT, active.LEAST_GAIN = before


def probing_scores(folders: Sequence[Path], every: int = 1, processes: int = 1) -> Scores:
    """Return the score with profiling of `joint` on each n-th goal, for each weight of a price and least gain."""
    found: Scores = {}
    with ProcessPoolExecutor(processes) as pool:
        answered = pool.map(planned_with, PROBING, itertools.repeat(folders), itertools.repeat(every))
        for values, rows in zip(PROBING, answered, strict=True):
            for source in {source_of(row.recording) for row in rows}:
                own = [np.log(row.score_with_profile) for row in rows if source_of(row.recording) == source]
                found.setdefault(source, {})[values] = float(np.mean(own))
    return found


def write(chosen: Mapping[str, float], grounds: Mapping[str, str], path: Path) -> None:
    """Put constants into their record, and above each group what it was chosen on."""
    text = path.read_text(encoding="utf-8")
    for name, value in chosen.items():
        text, count = re.subn(rf"(?m)^(    {name}: float = )[^ \n]+", rf"\g<1>{float(value)!r}", text)
        assert count == 1, f"{count} constants {name} in {path}"
    for name, words in grounds.items():
        text, count = re.subn(rf"(?m)^    # {name}: .*$", f"    # {name}: {words}", text)
        assert count == 1, f"{count} grounds of {name} in {path}"
    path.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    """Choose, print left-out beside in-sample scores, and write where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--probing", action="store_true", help="choose how probes are weighed, too")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of the goals of probing, each n-th alone")
    parser.add_argument("--write", action="store_true", help="put what was chosen into predict/constants.py")
    asked = parser.parse_args(arguments)
    folders = recording_folders(asked.recordings)
    recordings = grouped(map(read, folders), lambda recording: source_of(recording.name))
    seconds, held = seconds_scores(recordings)
    choices = [
        ConstantChoice(("luck_median", "luck_width"), luck_scores(recordings), TUNED),
        ConstantChoice(("few_configs", "usual_surprise", "least_spread"), seconds, held=held),
    ]
    if asked.probing:
        choices.append(ConstantChoice(("probe_weight", "least_gain"), probing_scores(folders, asked.every)))
    chosen: dict[str, float] = {}
    grounds: dict[str, str] = {}
    for choice in choices:
        if not choice.voters:
            continue
        say(f"{', '.join(choice.names)}: {choice.best()} on {', '.join(choice.voters)}")
        say(f"{'source':14s}{'others choose':>24s}{'left out':>10s}{'in sample':>10s}{'shipped':>10s}")
        rows = list(choice.rows())
        for source, others, out, inside, now in rows:
            say(f"{source:14s}{others!s:>24s}{out:10.3f}{inside:10.3f}{now:10.3f}")
        voting = [row for row in rows if row[0] in choice.voters]
        out, inside = (float(np.mean([row[place] for row in voting])) for place in (2, 3))
        say(f"{'mean of voters':14s}{'':24s}{out:10.3f}{inside:10.3f}")
        grounds[choice.names[0]] = f"{', '.join(choice.voters)}; left out {out:.3g}, in sample {inside:.3g}"
        chosen |= dict(zip(choice.names, choice.best(), strict=True))
    if asked.write:
        path = Path(inspect.getfile(Constants))
        write(chosen, grounds, path)
        say(f"written: {path}")


if __name__ == "__main__":
    main()
