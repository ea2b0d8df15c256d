"""What a metric can be at best: by its kind, and by what evaluations show again and again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from cotune.types import Floats, Job, Sample

_SHARE = re.compile(r"acc|top.?[15]|f1|precision|recall|auc|map|iou|bleu", re.IGNORECASE)  # in percent, above 1
_PERPLEXITY = re.compile(r"ppl|perplexity", re.IGNORECASE)
_MUCH = 0.25  # from which a share is told in parts of one: in per cent it would hardly be so little
_TIES = 3  # evaluations that show a bound, and how many times as often as any other value


def natural_ceiling(job: Job, values: Floats) -> float:
    """Return what sign x metric cannot pass, some values of it given.

    That is 1 or 100 where it is like a share, 0 where it is like minus a loss, -1 of a perplexity.
    """
    low, high = float(values.min()), float(values.max())
    if job.sign > 0 and low >= 0 and high <= 1:
        return 1.0
    if job.sign > 0 and low >= 0 and high <= 100 and _SHARE.search(job.metric):
        return 100.0
    if job.sign < 0 and high <= -1 and _PERPLEXITY.search(job.metric):
        return -1.0
    return 0.0 if job.sign < 0 and high <= 0 else np.inf


def out_of_reach(job: Job, target: float | None, samples: Sequence[Sample]) -> bool:
    """Return whether no evaluation can meet a target, by what evaluations so far say of the metric's unit."""
    shown = np.array([point.accuracy for sample in samples for point in sample.curve])
    return target is not None and len(shown) > 0 and job.sign * target > natural_ceiling(job, job.sign * shown)


def asked_in_per_cent(job: Job, target: float | None, samples: Sequence[Sample]) -> bool:
    """Return whether a target is in per cent of a share that evaluations so far tell in parts of one."""
    shown = [point.accuracy for sample in samples for point in sample.curve]
    if target is None or not shown or job.sign < 0 or not _SHARE.search(job.metric):
        return False
    return min(shown) < target / 100 <= 1 < target and _MUCH <= max(shown) <= 1


def shown_bound(curves: Sequence[Floats]) -> float:
    """Return the value that evaluations show again and again and never pass; infinite where there is none.

    Such are a reward that cannot pass 200 and a solved task. A curve that begins there has not risen to it: it may be
    stuck.
    """
    best = max(float(values.max()) for values in curves)
    shown = Counter(np.concatenate(curves).tolist())
    others = max((count for value, count in shown.items() if value != best), default=0)
    rises = [len(set(values[: int((values == best).argmax())].tolist())) for values in curves if best in values]
    return best if max(rises) >= _TIES and shown[best] >= _TIES * max(1, others) else np.inf
