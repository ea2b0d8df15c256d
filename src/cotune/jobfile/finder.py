"""Finding the pattern that would read a job's output, or nothing: a wrong number is worse than none.

A number belongs to the name right before it on its line (`loss: 0.3`, `'loss': 0.3`, `valid loss -> 0.3`), never to one
that follows it or stands elsewhere. A name is held-out by its own words (`val_loss`, `loss(val)`) or by the part of
the line that it is in (`[valid] loss=0.3`). Lines of held-out values win; of a value that says neither, a line that is
told within an epoch is not believed, since its number is of a part of the training data. Two numbers that could be
meant are none. A line that begins with a bare count (`[3/20]`, or `[3]` where it grows from line to line) counts epochs
if it tells a held-out value, else it may count steps. `Accuracy: 981/1000 (98.1%)` tells per cent, and without them
nothing. Where no line both counts and tells, a held-out value belongs to the last line before it that counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from cotune.jobfile import metric_names
from cotune.worker.report import as_word

_MOST_LETTERS = 2000  # of a line: the time to look for numbers grows with their square
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w]|\.\d|,\d{3})")
_WHOSE = "val|valid|validation|eval|evaluation|dev|test"
_NAME = rf"[A-Za-z][\w/@.\-]*(?:'s)?(?:[(\[](?i:{_WHOSE}|train|training)[)\]])?"  # `RMSE(val)`
_GAP = r"['\"]?\s*(?:[-=]>|[:=])?\s*['\"\[(]?\s*$"  # between a name and its number
_LABEL = re.compile(rf"(?<![\w/@.\-])(?P<name>(?:{_NAME} ){{0,2}}{_NAME}){_GAP}")
_EPOCH = re.compile(rf"(?<![\w/])(?P<name>epoch|pass|round|ep)s?{_GAP}", re.IGNORECASE)
_STEP = re.compile(rf"(?<![\w/])(?P<name>(?:global[_ ])?(?:step|iter|iteration)|num_updates)s?{_GAP}", re.IGNORECASE)
_BARE = re.compile(r"^\s*(?P<opening>[\[(]\s*)(?P<count>\d+)\s*/\s*\d+")  # of so many, without a name
_IN_BRACKETS = re.compile(r"^\s*(?P<opening>\[\s*)(?P<count>\d+)\s*\]")  # without a name or a whole: it may be a rank
_TRAINING = re.compile(r"(?<![A-Za-z])(?:train|training)(?![A-Za-z])", re.IGNORECASE)
_HELD_OUT = re.compile(rf"(?<![A-Za-z])(?:{_WHOSE})(?![A-Za-z])", re.IGNORECASE)
_WITHIN = re.compile(r"\d\s*/\s*\d|\d+%\|", re.IGNORECASE)  # of so many steps
_OF = re.compile(r"\s*/\s*\d[\d.]*(?:\s*[(=]?\s*(?P<share>\d[\d.]*)\s?%)?")  # right answers of so many, and per cent
_FILLERS = {"avg", "average", "mean", "total", "lm", "value", "overall", "global", "set", "subset", "epoch", "averaged"}
_ALIKE = {"acc": "accuracy", "accuracies": "accuracy", "ppl": "perplexity", "losses": "loss", "err": "error"}
_ALIKE |= {"acc1": "accuracy", "top1": "accuracy"}
_NO_METRICS = {"lr", "rate", "time", "sec", "seconds", "elapsed", "eta", "step", "epoch", "batch", "size", "seed", "of"}
_NOT_MEANT = {"best", "last", "min", "max", "scale", "prev", "previous"}
_UNITS = (("epoch", _EPOCH), ("step", _STEP))  # of progress, in the order in which a line is believed
_OPENERS = ("accuracy", "loss", "perplexity", "wer", "cer", "f1", "rmse", "mae", "mse", "dice", "miou", "map", "bleu")


@dataclass(frozen=True, slots=True)
class SuggestedPattern:
    """A pattern that reads a line, and the numbers that it would read there."""

    line: str
    pattern: str
    metric: str
    value: float
    progress: float

    @property
    def in_epochs(self) -> SuggestedPattern:
        """Return the pattern for a job whose steps are its epochs: `--iterations {epochs}`."""
        return replace(self, pattern=self.pattern.replace("(?P<step>", "(?P<epoch>"))


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A number of a line, with the name before it; `begin` is where the name begins."""

    words: tuple[str, ...]
    name: str
    begin: int
    after: int  # where the name ends
    start: int
    end: int
    held_out: bool | None  # None where nothing says

    @property
    def said(self) -> tuple[str, ...]:
        """Return what the name says besides whose value it is."""
        pairs = zip(("", *self.words[:-1]), self.words, strict=True)
        own = (word for before, word in pairs if not (word.isdigit() and metric_names.is_held_out(before)))  # valid_1
        plain = (word for word in own if not metric_names.is_held_out(word) and word not in _FILLERS)
        return tuple(_ALIKE.get(word, word) for word in plain if word not in ("train", "training"))


def suggested(
    lines: Iterable[str], metric: str, *, bare: str = "epoch", named: bool = True, doubtful: bool = False
) -> SuggestedPattern | None:
    """Return a pattern for a line that tells progress and the metric, one of held-out values preferred.

    A metric that nobody has `named` may also be another that is told of held-out data. A `doubtful` one may be of
    training data, as far as its line tells (`train loss 0.3 top1 0.9`): its user has to say. A `bare` count (`[3/20]`)
    is of epochs, or of steps where the job counts those.
    """
    second: SuggestedPattern | None = None
    apart: SuggestedPattern | None = None
    counts: dict[str, tuple[str, _Labelled]] = {}  # by unit, the last line that counts
    metrics = (metric,) if named else (metric, *(name for name in _OPENERS if name != metric))
    every = [whole[:_MOST_LETTERS].rstrip("\r\n") for whole in lines]
    bracketed = _counts_in_brackets(every)
    for line in every:
        progress = _progress(line, bare, bracketed=bracketed)
        for wanted in metrics:
            other = wanted != metric
            found = _in_line(line, progress, wanted, only_held_out=other, doubtful=doubtful) if progress else None
            if found is not None and found[1]:
                return found[0]
            second = second or (found[0] if found else None)
            if progress is None and counts:
                apart = apart or _over_two_lines(counts, line, wanted, group=_group(wanted, other))
        if progress is not None and progress[1].name:
            counts[progress[0]] = (line, progress[1])
    return apart or second


def score(lines: Iterable[str], *, counted: bool = False, bare: str = "epoch") -> SuggestedPattern | None:
    """Return a pattern for a score (auc, top1, f1) that is better the higher it is, at the end of a part of a run.

    Of held-out data it is as far as nothing says otherwise: the name of another value on the line (`train_loss`) does
    not. Numbers in brackets that lines begin with count epochs where they are said to be `counted`.
    """
    for whole in lines:
        line = whole[:_MOST_LETTERS].rstrip("\r\n")
        progress = _progress(line, bare, bracketed=counted)
        if progress is None or _is_within(line, *progress) or not (counted or progress[1].name):
            continue
        for one in _labelled(line, progress[1]):
            if metric_names.better(one.name) != "higher" or _NOT_MEANT & set(one.words) or _is_training(line, one):
                continue
            metric = "accuracy" if one.said == ("accuracy",) else one.name
            found = _in_line(line, progress, metric, only_held_out=False, doubtful=True, counted=True)
            if found is not None:
                return found[0]
    return None


def epochs_in_brackets(lines: Sequence[str]) -> bool:
    """Return whether the numbers in brackets that lines begin with grow by one: so epochs do, and steps seldom."""
    counts = [int(match["count"]) for line in lines if (match := _BARE.match(line) or _IN_BRACKETS.match(line))]
    return bool(counts) and all(after - before == 1 for before, after in pairwise(counts))


def held_out_names(line: str) -> list[str]:
    """Return the names of the values of held-out data on a line that counts, as they stand there."""
    told = list(_labelled(line, None))
    return [one.name for one in told if one.held_out and metric_names.better(one.name)]


def only_value(lines: Iterable[str]) -> SuggestedPattern | None:
    """Return a pattern for a line that counts by name and tells one number more, which is not said to be of training.

    Whether that is what the job is good by (`mean_reward`, `r2`) is for its user to say.
    """
    for whole in lines:
        line = whole[:_MOST_LETTERS].rstrip("\r\n")
        progress = _progress(line, "epoch")
        if progress is None or not progress[1].name:
            continue
        unit, counted = progress
        told = list(_labelled(line, counted))
        if len(told) != 1 or not told[0].said or _NO_METRICS & set(told[0].words) or told[0].held_out is False:
            continue
        name = as_word(told[0].name)
        pattern = _pattern(line, progress, (name, told[0]), None)
        match = re.search(pattern, line)
        numbers = (line[told[0].start : told[0].end], line[counted.start : counted.end])
        if match is not None and (match[name], match[unit]) == numbers:
            return SuggestedPattern(line.strip()[:120], pattern, name, float(numbers[0]), float(numbers[1]))
    return None


def _over_two_lines(
    counts: Mapping[str, tuple[str, _Labelled]], line: str, metric: str, *, group: str
) -> SuggestedPattern | None:
    """Return what a line of a held-out value suggests that does not count, and the last one before it that does."""
    unit = next(unit for unit, _ in _UNITS if unit in counts)
    before, counted = counts[unit]
    value = _meant(list(_labelled(line, None)), metric, within=False)
    if value is None or not value.held_out:
        return None
    section = None if metric_names.is_held_out(value.name) else _section(line, value)
    whose = rf"\b{_literal(section[0])}\b.*?" if section else ""
    pattern = rf"\b{_counting(before, unit, counted)}|{whose}{_telling(line, group, value)}"
    numbers = (before[counted.start : counted.end], line[value.start : value.end])
    matches = (re.search(pattern, before), re.search(pattern, line))
    read = [match and (match[unit], match[group]) for match in matches]
    if read != [(numbers[0], None), (None, numbers[1])]:
        return None
    return SuggestedPattern(line.strip()[:120], pattern, group, float(numbers[1]), float(numbers[0]))


def _group(metric: str, only_held_out: bool) -> str:
    """Return the name of a metric in a pattern; one that nobody has asked for says that it is of held-out data."""
    return as_word(f"val_{metric}" if only_held_out and not metric_names.is_held_out(metric) else metric)


def _in_line(
    line: str,
    progress: tuple[str, _Labelled],
    metric: str,
    *,
    only_held_out: bool,
    doubtful: bool,
    counted: bool = False,  # what counts is known without a name
) -> tuple[SuggestedPattern, bool] | None:
    """Return what a line that counts suggests for a metric, and whether that is of held-out data."""
    unit, count = progress
    within = _is_within(line, unit, count)
    value = _meant(list(_labelled(line, count)), metric, within=within, doubtful=doubtful)
    if value is None or ((only_held_out or not (counted or count.name)) and not value.held_out):
        return None
    section = _section(line, value) if value.held_out and not metric_names.is_held_out(value.name) else None
    group = _group(metric, only_held_out)
    pattern = _pattern(line, (unit, count), (group, value), section)
    match = re.search(pattern, line)
    numbers = (line[value.start : value.end], line[count.start : count.end])
    if match is None or (match[group], match[unit]) != numbers:
        return None
    told = SuggestedPattern(line.strip()[:120], pattern, group, float(numbers[0]), float(numbers[1]))
    return told, bool(value.held_out)


def _labelled(line: str, but: _Labelled | None) -> Iterator[_Labelled]:
    """Yield the numbers of a line that a name stands right before."""
    for number in _NUMBER.finditer(line):
        said = _LABEL.search(line, 0, number.start())
        if said is None or (but is not None and number.start() == but.start):
            continue
        of = _OF.match(line, number.end())
        if of is not None and of["share"] is None:
            continue
        start, end = of.span("share") if of else number.span()
        name, begin = _nearest(said["name"], said.start("name"))
        words = tuple(re.findall("[a-z]+[0-9]*|[0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
        yield _Labelled(words, name, begin, number.start(), start, end, _whose(line, name, begin))


def _nearest(name: str, begin: int) -> tuple[str, int]:
    """Return the words of a name that belong to it: those before the last that say whose value it is."""
    words = name.split(" ")
    kept = [words[-1]]
    for word in reversed(words[:-1]):
        nameless = all(part.lower() in _FILLERS for part in kept)
        whose = metric_names.is_held_out(word) or _TRAINING.search(word) or word.lower() in _FILLERS | _NOT_MEANT
        if not (nameless or whose):
            break
        kept.insert(0, word)
    short = " ".join(kept)
    return short, begin + len(name) - len(short)


def _is_training(line: str, one: _Labelled) -> bool:
    """Return whether a value is said to be of training data, other than by the name of another value."""
    if one.held_out is not False or _TRAINING.search(one.name):
        return one.held_out is False
    *_, last = _TRAINING.finditer(line, 0, one.begin)
    return re.match(r"[_/.\-]\w", line[last.end() :]) is None


def _whose(line: str, name: str, begin: int) -> bool | None:
    """Return whether a value is of held-out data, by its name or the last part of the line that says."""
    if metric_names.is_held_out(name) or _TRAINING.search(name):
        return metric_names.is_held_out(name)
    said = [(match.start(), True) for match in _HELD_OUT.finditer(line, 0, begin)]
    said += [(match.start(), False) for match in _TRAINING.finditer(line, 0, begin)]
    return max(said)[1] if said else None


def _meant(labelled: Sequence[_Labelled], metric: str, *, within: bool, doubtful: bool = False) -> _Labelled | None:
    """Return the only number that can be the metric, one of held-out data first."""
    wanted = _Labelled(tuple(re.findall("[a-z]+[0-9]*", metric.lower())), metric, 0, 0, 0, 0, None).said
    alike = [one for one in labelled if one.said == wanted and not _NOT_MEANT & set(one.words)]
    held_out = [one for one in alike if one.held_out]
    if held_out:
        exact = [one for one in held_out if as_word(one.name).lower() == as_word(metric).lower()]
        no_test = [one for one in held_out if "test" not in one.words]
        choice = next((part for part in (exact, held_out, no_test) if len(part) == 1), [])
        return choice[0] if choice else None
    if doubtful:
        unsaid = [one for one in alike if not _TRAINING.search(one.name)]
        return unsaid[0] if len(unsaid) == 1 else None
    unsaid = [one for one in alike if one.held_out is None]
    if within or metric_names.is_held_out(metric) or len(unsaid) != 1:
        return None
    return unsaid[0]


def _counts_in_brackets(lines: Sequence[str]) -> bool:
    """Return whether numbers in brackets that lines begin with count something: they grow, which a rank does not."""
    counts = [int(match["count"]) for line in lines if (match := _IN_BRACKETS.match(line))]
    return len(counts) > 1 and all(before < after for before, after in pairwise(counts))


def _progress(line: str, bare_unit: str, *, bracketed: bool = False) -> tuple[str, _Labelled] | None:
    """Return what counts the progress of a line, and its number."""
    for unit, sign in _UNITS:
        for number in _NUMBER.finditer(line):
            said = sign.search(line, 0, number.start())
            if said is not None and float(number[0]) >= 0:
                return unit, _count(said["name"], said.start("name"), number.start(), number.end())
    bare = _BARE.match(line) or (_IN_BRACKETS.match(line) if bracketed else None)
    if bare is None:
        return None
    return bare_unit, _count("", bare.start("opening"), bare.start("count"), bare.end("count"))


def _count(name: str, begin: int, start: int, end: int) -> _Labelled:
    return _Labelled((), name, begin, start, start, end, None)


def _is_within(line: str, unit: str, counted: _Labelled) -> bool:
    """Return whether a line that counts epochs is told in the midst of one: it counts steps too."""
    if unit != "epoch":
        return False
    total = re.match(r"\s*/\s*\d+", line[counted.end :])
    rest = line[: counted.begin] + line[counted.end + (total.end() if total else 0) :]
    stepping = any(_STEP.search(rest, 0, number.start()) for number in _NUMBER.finditer(rest))
    return stepping or _WITHIN.search(rest) is not None


def _section(line: str, value: _Labelled) -> re.Match[str] | None:
    """Return the last word before a value that says that it is of held-out data."""
    return max(_HELD_OUT.finditer(line, 0, value.begin), key=lambda match: match.start(), default=None)


def _pattern(
    line: str, progress: tuple[str, _Labelled], value: tuple[str, _Labelled], section: re.Match[str] | None
) -> str:
    """Return an expression for two named numbers of a line, in their order, and the part of the line they are in."""
    unit, counted = progress
    group, told = value
    of = "" if counted.name else re.escape(line[counted.end])
    parts = {counted.begin: f"{_counting(line, unit, counted)}{of}", told.begin: _telling(line, group, told)}
    if section is not None and not counted.begin <= section.start() < counted.start:
        parts[section.start()] = rf"\b{_literal(section[0])}\b"
    return ".*?".join(parts[place] for place in sorted(parts))


def _counting(line: str, unit: str, counted: _Labelled) -> str:
    """Return an expression for what counts the progress of a line."""
    number = line[counted.start : counted.end]
    count = r"[-+.\deE]+" if re.search("[eE]", number) else r"[\d.]+" if "." in number else r"\d+"
    return f"{_literal(line[counted.begin : counted.start])}(?P<{unit}>{count})"


def _telling(line: str, group: str, told: _Labelled) -> str:
    """Return an expression for a number of a line with its name, and how many of how many where it has them."""
    per_cent = r"\s*%" if re.match(r"\s?%(?!\|)", line[told.end :]) else ""
    number = r"[-+.\deE]+" if re.search(r"[-+eE]", line[told.start : told.end]) else r"[\d.]+"
    if line[told.end : told.end + 1] == "." and number == r"[\d.]+":  # the end of a sentence
        number = r"\d+(?:\.\d+)?"
    so_many = re.sub(r"\d[\d.]*(?:\\\.\d+)?", lambda _: r"[\d.]+", _literal(line[told.after : told.start]))
    return rf"\b{_literal(line[told.begin : told.after])}{so_many}(?P<{group}>{number}){per_cent}"


def _literal(text: str) -> str:
    """Return an expression for a text: any number of blanks for blanks, and no quotes, which shells and YAML read."""
    return re.sub("['\"]", ".", re.sub(r"(\\\s)+", r"\\s+", re.escape(text)))
