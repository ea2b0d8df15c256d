"""Finding the pattern that would read a job's output, or nothing: a wrong number is worse than none.

A number belongs to the name right before it on its line (`loss: 0.3`, `'loss': 0.3`, `valid loss -> 0.3`). A name is
of held-out data by its own words (`val_loss`, `loss(val)`) or by the part of the line that it is in (`[valid]
loss=0.3`). Held-out values win; of a value that says neither, a line within an epoch is not believed, since its number
is of a part of the training data. Two numbers that could be meant are none. A line that begins with a bare count
(`[3/20]`) counts epochs if it shows a held-out value. `Accuracy: 981/1000 (98.1%)` is in per cent. Where no line both
counts and evaluates, a held-out value belongs to the last line before it that counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cotune.jobfile import metric_names
from cotune.worker.report import as_word

_MOST_LETTERS = 2000  # of a line: the time to look for numbers grows with their square
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w]|\.\d|,\d{3})")
_WHOSE = "val|valid|validation|eval|evaluation|dev|test"
_NAME = rf"[A-Za-z][\w/@.\-]*(?:[(\[](?i:{_WHOSE}|train|training)[)\]])?"  # `RMSE(val)`
_GAP = r"['\"]?\s*(?:[-=]>|[:=])?\s*['\"\[(]?\s*$"  # between a name and its number
_LABEL = re.compile(rf"(?<![\w/@.\-])(?P<name>(?:{_NAME} ){{0,2}}{_NAME}){_GAP}")
_EPOCH = re.compile(rf"(?<![\w/])(?P<name>epoch|pass|round|ep)s?{_GAP}", re.IGNORECASE)
_STEP = re.compile(rf"(?<![\w/])(?P<name>(?:global[_ ])?(?:step|iter|iteration)|num_updates)s?{_GAP}", re.IGNORECASE)
_BARE = re.compile(r"^\s*(?P<opening>[\[(]\s*)(?P<count>\d+)\s*/\s*\d+")  # with a total, without a name
_TRAINING = re.compile(r"(?<![A-Za-z])(?:train|training)(?![A-Za-z])", re.IGNORECASE)
_HELD_OUT = re.compile(rf"(?<![A-Za-z])(?:{_WHOSE})(?![A-Za-z])", re.IGNORECASE)
_WITHIN = re.compile(r"\d\s*/\s*\d|\d+%\|", re.IGNORECASE)  # with a total of steps
_OF = re.compile(r"\s*/\s*\d[\d.]*(?:\s*[(=]?\s*(?P<share>\d[\d.]*)\s?%)?")  # right answers of all, and per cent
_FILLERS = {"avg", "average", "mean", "total", "lm", "value", "overall", "global", "set", "subset", "epoch", "averaged"}
_SAME = {"acc": "accuracy", "acc1": "accuracy", "top1": "accuracy", "accuracies": "accuracy"}
_SAME |= {"ppl": "perplexity", "losses": "loss", "err": "error"}
_NO_METRICS = {"lr", "rate", "time", "sec", "seconds", "elapsed", "eta", "step", "epoch", "batch", "size", "seed", "of"}
_NOT_MEANT = {"best", "last", "min", "max", "scale", "prev", "previous"}
_UNITS = (("epoch", _EPOCH), ("step", _STEP))  # of progress, in the order in which a line is believed
_HELD, _TWO_LINES, _UNSAID, _ONLY = range(4)  # how much a suggestion is to be believed: the lower, the more
_USUAL = ("accuracy", "loss", "perplexity", "wer", "f1", "rmse", "mae", "dice", "miou", "map", "bleu")


@dataclass(frozen=True, slots=True)
class SuggestedPattern:
    """A pattern that reads a line, and the numbers that it would read there."""

    line: str
    pattern: str
    metric: str
    value: float
    progress: float


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A number of a line, with the name before it; `begin` is where the name begins."""

    name: str
    begin: int
    after: int  # where the name ends
    start: int
    end: int
    held_out: bool | None = None  # None where nothing says
    unit: str = ""  # of what counts progress

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(re.findall("[a-z]+[0-9]*|[0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.name).lower()))

    @property
    def said(self) -> tuple[str, ...]:
        """Return what the name says besides whose value it is."""
        plain = (word for word in self.words if not (word.isdigit() or metric_names.is_held_out(word)))  # valid_1
        return tuple(_SAME.get(word, word) for word in plain if word not in _FILLERS | {"train", "training"})


def suggested(lines: Iterable[str], metric: str, *, bare: str = "epoch", named: bool = True) -> SuggestedPattern | None:
    """Return a pattern for a line that shows progress and the metric, one of held-out values preferred.

    A metric that is not `named` may also be another usual one of held-out data, else the only value (or the only one
    that is better when higher) of a line that counts by name. A `bare` count (`[3/20]`) is of epochs, or of steps where
    the job counts those.
    """
    every = [line[:_MOST_LETTERS].rstrip("\r\n") for line in lines]
    found = _candidates(every, (metric,) if named else (metric, *(name for name in _USUAL if name != metric)), bare)
    best = min(found, key=lambda one: one[0], default=None)
    return best[1] if best is not None and not (named and best[0] == _ONLY) else None


def _candidates(lines: Sequence[str], metrics: Sequence[str], bare: str) -> Iterator[tuple[int, SuggestedPattern]]:
    """Yield what lines suggest, with how much it is to be believed."""
    last: tuple[str, _Labelled] | None = None  # line that counts by name
    for line in lines:
        count = _progress(line, bare)
        for metric in metrics:
            group = as_word(metric if metric == metrics[0] or metric_names.is_held_out(metric) else f"val_{metric}")
            if count is None:
                value = _meant(line, None, metric) if last is not None else None
                if last is not None and value is not None and value.held_out:
                    yield from _over_two_lines(last, line, value, group)
                continue
            value = _meant(line, count, metric)
            if value is not None and (value.held_out or (metric == metrics[0] and count.name)):
                yield from _on_one_line(line, count, value, group, _HELD if value.held_out else _UNSAID)
        if count is not None and count.name:
            last = last if last is not None and (last[1].unit, count.unit) == ("epoch", "step") else (line, count)
            if (only := _only_value(line, count)) is not None:
                group = "accuracy" if only.said == ("accuracy",) else as_word(only.name)
                yield from _on_one_line(line, count, only, group, _ONLY)


def _on_one_line(
    line: str, count: _Labelled, value: _Labelled, group: str, rank: int
) -> Iterator[tuple[int, SuggestedPattern]]:
    """Yield a pattern for two numbers of a line, in their order, and the word that says whose the value is."""
    of = "" if count.name else re.escape(line[count.end])
    parts = {count.begin: f"{_counting(line, count)}{of}", value.begin: _evaluating(line, group, value)}
    section = _section(line, value)
    if section is not None and not count.begin <= section.start() < count.start:
        parts[section.start()] = rf"\b{_literal(section[0])}\b"
    pattern = ".*?".join(parts[place] for place in sorted(parts))
    match, numbers = re.search(pattern, line), (line[value.start : value.end], line[count.start : count.end])
    if match is not None and (match[group], match[count.unit]) == numbers:
        yield rank, SuggestedPattern(line.strip()[:120], pattern, group, float(numbers[0]), float(numbers[1]))


def _over_two_lines(
    before: tuple[str, _Labelled], line: str, value: _Labelled, group: str
) -> Iterator[tuple[int, SuggestedPattern]]:
    """Yield a pattern for a held-out value on a line that does not count, and the last one before it that does."""
    counting, count = before
    section = _section(line, value)
    whose = rf"\b{_literal(section[0])}\b.*?" if section else ""
    pattern = rf"\b{_counting(counting, count)}|{whose}{_evaluating(line, group, value)}"
    numbers = (counting[count.start : count.end], line[value.start : value.end])
    matches = (re.search(pattern, counting), re.search(pattern, line))
    if [match and (match[count.unit], match[group]) for match in matches] == [(numbers[0], None), (None, numbers[1])]:
        yield _TWO_LINES, SuggestedPattern(line.strip()[:120], pattern, group, float(numbers[1]), float(numbers[0]))


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
        yield _Labelled(name, begin, number.start(), start, end, _whose(line, name, begin))


def _nearest(name: str, begin: int) -> tuple[str, int]:
    """Return the words of a name that belong to it: those before the last that say whose value it is."""
    words = name.split(" ")
    own = [words[-1]]
    for word in reversed(words[:-1]):
        nameless = all(part.lower() in _FILLERS for part in own)
        whose = metric_names.is_held_out(word) or _TRAINING.search(word) or word.lower() in _FILLERS | _NOT_MEANT
        if not (nameless or whose):
            break
        own.insert(0, word)
    short = " ".join(own)
    return short, begin + len(name) - len(short)


def _whose(line: str, name: str, begin: int) -> bool | None:
    """Return whether a value is of held-out data, by its name or the last part of the line that says."""
    if metric_names.is_held_out(name) or _TRAINING.search(name):
        return metric_names.is_held_out(name)
    said = [(match.start(), True) for match in _HELD_OUT.finditer(line, 0, begin)]
    said += [(match.start(), False) for match in _TRAINING.finditer(line, 0, begin)]
    return max(said)[1] if said else None


def _meant(line: str, count: _Labelled | None, metric: str) -> _Labelled | None:
    """Return the only number of a line that can be the metric, one of held-out data first."""
    wanted = _Labelled(metric, 0, 0, 0, 0).said
    same = [one for one in _labelled(line, count) if one.said == wanted and not _NOT_MEANT & set(one.words)]
    held_out = [one for one in same if one.held_out]
    if held_out:
        exact = [one for one in held_out if as_word(one.name).lower() == as_word(metric).lower()]
        no_test = [one for one in held_out if "test" not in one.words]
        return next((part[0] for part in (exact, held_out, no_test) if len(part) == 1), None)
    unsaid = [one for one in same if one.held_out is None]
    within = count is None or _is_within(line, count) or metric_names.is_held_out(metric)
    return None if within or len(unsaid) != 1 else unsaid[0]


def _only_value(line: str, count: _Labelled) -> _Labelled | None:
    """Return the only value of a line that counts, or the only one that is better when higher, not of training data."""
    values = [one for one in _labelled(line, count) if one.said and not (_NO_METRICS | _NOT_MEANT) & set(one.words)]
    scores = [one for one in values if metric_names.better(one.name) == "higher"]
    found = next((part[0] for part in (values, scores) if len(part) == 1), None)
    return None if found is None or found.held_out is False or _is_within(line, count) else found


def _progress(line: str, bare_unit: str) -> _Labelled | None:
    """Return what counts the progress of a line."""
    for unit, sign in _UNITS:
        for number in _NUMBER.finditer(line):
            said = sign.search(line, 0, number.start())
            if said is not None and float(number[0]) >= 0:
                return _Labelled(said["name"], said.start("name"), number.start(), *number.span(), unit=unit)
    bare = _BARE.match(line)
    if bare is None:
        return None
    return _Labelled("", bare.start("opening"), bare.start("count"), *bare.span("count"), unit=bare_unit)


def _is_within(line: str, count: _Labelled) -> bool:
    """Return whether a line that counts epochs is printed within one: it counts steps too."""
    if count.unit != "epoch":
        return False
    total = re.match(r"\s*/\s*\d+", line[count.end :])
    rest = line[: count.begin] + line[count.end + (total.end() if total else 0) :]
    stepping = any(_STEP.search(rest, 0, number.start()) for number in _NUMBER.finditer(rest))
    return stepping or _WITHIN.search(rest) is not None


def _section(line: str, value: _Labelled) -> re.Match[str] | None:
    """Return the last word before a value that says that it is of held-out data, where its name does not."""
    if not value.held_out or metric_names.is_held_out(value.name):
        return None
    return max(_HELD_OUT.finditer(line, 0, value.begin), key=lambda match: match.start(), default=None)


def _counting(line: str, count: _Labelled) -> str:
    """Return an expression for what counts the progress of a line."""
    number = line[count.start : count.end]
    digits = r"[-+.\deE]+" if re.search("[eE]", number) else r"[\d.]+" if "." in number else r"\d+"
    return f"{_literal(line[count.begin : count.start])}(?P<{count.unit}>{digits})"


def _evaluating(line: str, group: str, value: _Labelled) -> str:
    """Return an expression for a number of a line with its name, and how many of how many where it has them."""
    per_cent = r"\s*%" if re.match(r"\s?%(?!\|)", line[value.end :]) else ""
    number = r"[-+.\deE]+" if re.search(r"[-+eE]", line[value.start : value.end]) else r"[\d.]+"
    if line[value.end : value.end + 1] == "." and number == r"[\d.]+":  # the end of a sentence
        number = r"\d+(?:\.\d+)?"
    counts = re.sub(r"\d[\d.]*(?:\\\.\d+)?", lambda _: r"[\d.]+", _literal(line[value.after : value.start]))
    return rf"\b{_literal(line[value.begin : value.after])}{counts}(?P<{group}>{number}){per_cent}"


def _literal(text: str) -> str:
    """Return an expression for a text: any number of blanks for blanks, and no quotes, which shells and YAML read."""
    return re.sub("['\"]", ".", re.sub(r"(\\\s)+", r"\\s+", re.escape(text)))
