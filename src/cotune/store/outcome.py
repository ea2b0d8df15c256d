"""Whose fault it was: a config that fails is not tried again, one that was interrupted may be.

A crash, a lack of memory and a time-out say something about the config. A killed cotune,
Ctrl-C and a machine that went down do not; what had been measured by then stays valid.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotune.types import Config, Sample

INTERRUPTED = "interrupted"


def interrupted(sample: Sample) -> bool:
    """Return whether a sample was cut short by something other than its config."""
    return sample.failure is not None and sample.failure.startswith(INTERRUPTED)


def failed_configs(samples: Iterable[Sample]) -> dict[Config, str]:
    """Return the configs whose last judged start failed, each with the reason; oldest samples first."""
    judged = {sample.config: sample.failure for sample in samples if sample.ended and not interrupted(sample)}
    return {config: failure for config, failure in judged.items() if failure is not None}
