"""What the core asks of this room: what a step of the model that a job names counts, who it is and its memory.

    peak(b) = fixed + c b          c = (peak(64) - peak(16)) / 48, both counted over fake tensors

Two models are the same when their steps count the same: operations, bytes, operators, parameters and the
mix of families. Their names, files and data do not matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.trace import count
from cotune.modelling.counting.workload import Workload
from cotune.modelling.workloads.named import find
from cotune.store.rows import Fingerprint
from cotune.types import CountedModel

_SMALL, _LARGE = 16, 64


def counted(model: str, inputs: Sequence[str]) -> CountedModel:
    """Return what is counted of a model by its name or import path."""
    return counted_model(find(model, inputs))


def fingerprint(counts: Counts) -> Fingerprint:
    """Return what makes a step comparable with others."""
    return Fingerprint(counts.flops, counts.bytes, counts.operators, counts.parameters, tuple(counts.mix.items()))


def counted_model(workload: Workload) -> CountedModel:
    """Return what is counted of a model."""
    small, large = count(workload, _SMALL), count(workload, _LARGE)
    slope = max(large.peak_bytes - small.peak_bytes, 0.0) / (_LARGE - _SMALL)
    facts = json.dumps(asdict(fingerprint(small)))
    return CountedModel(
        hashlib.sha256(facts.encode()).hexdigest()[:16], max(small.peak_bytes - slope * _SMALL, 0.0), slope
    )
