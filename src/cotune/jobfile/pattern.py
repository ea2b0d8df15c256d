"""A job's pattern on its output: a regular expression whose named groups say which number is which.

    epoch (?P<epoch>\\d+) loss (?P<loss>\\S+) accuracy (?P<accuracy>\\S+)

`epoch` (or `step`, or `tokens`) and the metric of the target must be named, with `_` for what no name can hold
(`eval_loss` for `eval/loss`); `accuracy` may be `val_accuracy` and the like. Without a target the only metric that
is named is the job's, or the only one of held-out data. A line that gives the number another name, such as `loss: 0.2`
for accuracy, is not believed. Evaluations on separate lines stand between `|`: an evaluation then belongs to the
last count before it.

    Epoch (?P<epoch>\\d+)|Test.*Accuracy: \\d+/\\d+ \\((?P<accuracy>[\\d.]+)%
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise

from cotune.errors import UsageError, suggestion
from cotune.jobfile import metric_names
from cotune.types import Job
from cotune.worker.report import PROGRESS, TERMS, as_word, stands_for

_LABEL = re.compile(r"(?P<name>[A-Za-z][\w/@.-]*)[^\w\n]{0,6}$")  # the word right before a number
_KINDS = {
    "accuracy": ("acc", "accuracy", "accuracies", "precision", "top1", "top5"),
    "f1": ("f1", "fscore"),
    "auc": ("auc", "auroc", "roc"),
    "bleu": ("bleu",),
    "iou": ("iou", "miou"),
    "loss": ("loss", "losses", "nll", "bce", "xent", "crossentropy"),
    "error": ("err", "error", "errors"),
    "perplexity": ("ppl", "perplexity"),
    "wer": ("wer", "cer"),
    "mae": ("mae",),
    "mse": ("mse", "rmse"),
    "rate": ("lr", "rate"),
    "norm": ("norm",),
    "seconds": ("time", "runtime", "seconds", "sec"),
}
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)  # an escape, a set, or what groups
_BODY = r"(?:[^()\\]|\\.)*"  # of a group without groups in it


def pattern_of(job: Job) -> re.Pattern[str] | None:
    """Return the pattern on a job's output, if it has one, checked for the groups it must name."""
    if not job.pattern:
        return None
    try:
        found = re.compile(job.pattern)
    except re.error as error:
        raise UsageError(f"the pattern '{job.pattern}' is not a regular expression: {error}") from None
    _require_metric(job, found.groupindex.keys() - {*PROGRESS, *TERMS})
    if not set(PROGRESS) & found.groupindex.keys():
        raise UsageError(_lacks(job.pattern, "epoch"))
    return found


def counts_apart(pattern: re.Pattern[str]) -> bool:
    """Return whether progress stands on separate lines: no alternative of the pattern names a metric with it."""
    try:
        parts = [re.compile(part).groupindex.keys() for part in _alternatives(pattern.pattern)]
    except re.error:  # one of them refers to another
        return False
    return len(parts) > 1 and not any(part & set(PROGRESS) and part - {*PROGRESS, *TERMS} for part in parts)


def _alternatives(pattern: str) -> list[str]:
    """Return what stands between the `|` of an expression that are in no group and no set."""
    ends = [0]
    depth = 0
    for token in _TOKEN.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if token[0] == "|" and depth == 0:
            ends.append(token.end())
    return [pattern[start:end].removesuffix("|") for start, end in pairwise([*ends, len(pattern)])]


def metric_in(pattern: str) -> str | None:
    """Return the metric that a pattern names alone: the only one it names, or the only one of held-out data."""
    named = metrics_in(pattern)
    if "accuracy" in named or len(named) == 1:
        return "accuracy" if "accuracy" in named else named[0]
    held_out = [name for name in named if metric_names.is_held_out(name)]
    return held_out[0] if len(held_out) == 1 else None


def metrics_in(pattern: str) -> list[str]:
    """Return the metrics that a pattern names, in its own order."""
    return [name for name in re.compile(pattern).groupindex if name not in (*PROGRESS, *TERMS)]


def _require_metric(job: Job, named: set[str]) -> None:
    """Refuse a pattern that does not name the job's metric."""
    if group_of(job.metric, named) is not None:
        return
    if named:
        own = as_word(job.metric)
        near = suggestion(job.metric, named) or f": ask for that, or name the group of {job.metric} (?P<{own}>...)"
        raise UsageError(f"the pattern names {', '.join(sorted(named))}, not {job.metric}{near}")
    raise UsageError(_lacks(str(job.pattern), as_word(job.metric)))


def group_of(metric: str, named: Collection[str]) -> str | None:
    """Return which of a pattern's names is a metric's, if one is."""
    own = [as_word(metric), *(["accuracy"] if stands_for(metric) else [])]
    return next((name for name in own if name in named), None)


def per_cent(job: Job) -> str | None:
    """Return the part of a pattern that shows that the metric is reported in per cent: a `%` right after its group."""
    group = group_of(job.metric, metrics_in(job.pattern)) if job.pattern else None
    found = re.search(rf"\(\?P<{group}>{_BODY}\)(?:\s|\\s[*+?]?)*\\?%", job.pattern or "") if group else None
    return found[0] if found else None


def require_unit(job: Job, target: float | None) -> None:
    """Refuse a target in parts of one where the pattern shows that the job reports per cent: anything would meet it."""
    if target is None or target > 1 or job.better == "lower" or not metric_names.is_share(job.metric):
        return
    if (shown := per_cent(job)) is not None:
        words = f"{job.metric} {target:g} is {target:.3g} %, as the job reports per cent ({shown})"
        raise UsageError(f"{words}: write {job.metric}={100 * target:g}")


def other_name(metric: str, match: re.Match[str]) -> str | None:
    """Return what the line calls the number that a pattern took for the metric, where that is another metric."""
    group = group_of(metric, match.re.groupindex.keys())
    before = match.string[: match.start(group)] if group and match[group] is not None else ""
    said = _LABEL.search(before)
    label = said["name"] if said else ""
    kinds = _kind(label), _kind(metric)
    return label if None not in kinds and kinds[0] != kinds[1] else None


def _kind(name: str) -> str | None:
    """Return the metric that a name is a form of, by the last of its words that is known."""
    words = re.findall("[a-z]+[0-9]*", name.lower())
    known = (kind for word in reversed(words) for kind, forms in _KINDS.items() if word in forms)
    return next(known, None)


def _lacks(pattern: str, name: str) -> str:
    return f"the pattern '{pattern}' must name (?P<{name}>...), so that cotune knows which number is which"
