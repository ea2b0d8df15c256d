"""The door to what knows layouts of large models: a room that may not be installed.

layout: auto ─▶ layout_space (every layout that is right) ─▶ layout_law (seconds, memory, why, what to measure next)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from cotune import registry
from cotune.space import Configs, Space
from cotune.types import Cluster, Config, Ints, Job, LargeModel, Mask, Sample, Value

_WANTED_BY = "`layout: auto`"


@runtime_checkable
class LayoutModel(Protocol):
    """A fitted law of layouts, which knows more of a config than its seconds."""

    def too_large(self, configs: Configs) -> Mask:
        """Return which layouts should not run: their memory does not suffice, as counted."""
        ...

    def why(self, config: Config, rivals: Sequence[Config]) -> str:
        """Return where the step of a config goes, and what the nearest unlike rival gives up."""
        ...

    def worth_measuring(self, configs: Configs, count: int, among: Mask | None = None) -> Ints:
        """Return the rows of the layouts to measure next, the first one first."""
        ...


class LearnsLayouts(Protocol):
    """What learns the seconds of layouts; it begins with what is known before anything is measured."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> Any: ...


def layout_law() -> LearnsLayouts:
    """Return what predicts jobs whose layout is chosen."""
    law: LearnsLayouts = registry.of_room("layout_law", _WANTED_BY)()
    return law


def layout_space(
    model: LargeModel, cluster: Cluster, global_batch: int, allowed: Mapping[str, tuple[Value, ...]]
) -> Space:
    """Return every layout of a model that is right, of those whose values are allowed where any are named."""
    space: Space = registry.of_room("layout_space", _WANTED_BY)(model, cluster, global_batch, allowed)
    return space
