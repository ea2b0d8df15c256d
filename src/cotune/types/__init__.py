"""What flows through cotune: frozen records, from the job to the plan.

    job ─profile▶ samples ─predict▶ forecast ─plan▶ plan ─run▶ samples

A change is a new record (`dataclasses.replace`). Quantities are named by their unit.
"""

from cotune.types.cluster import Cluster, Device
from cotune.types.config import ASYNCHRONOUS, MODEL_PARALLEL, SPREADING, Config, Stage, split_over
from cotune.types.goal import Goal, Prefer
from cotune.types.job import (
    RECORDED,
    STOP_GRACE,
    CountedModel,
    Framework,
    Job,
    LargeModel,
    LearningRate,
    ProgressUnit,
    RateScaling,
    Recipe,
    Schedule,
    Unit,
    rule_power,
)
from cotune.types.plan import Z90, Forecast, Plan, Quantity, Source
from cotune.types.sample import Cause, Evaluation, Failure, Load, Sample, Terms
from cotune.types.values import Axes, Floats, Ints, Mask, Value, axes_of

__all__ = [
    "ASYNCHRONOUS",
    "MODEL_PARALLEL",
    "RECORDED",
    "SPREADING",
    "STOP_GRACE",
    "Z90",
    "Axes",
    "Cause",
    "Cluster",
    "Config",
    "CountedModel",
    "Device",
    "Evaluation",
    "Failure",
    "Floats",
    "Forecast",
    "Framework",
    "Goal",
    "Ints",
    "Job",
    "LargeModel",
    "LearningRate",
    "Load",
    "Mask",
    "Plan",
    "Prefer",
    "ProgressUnit",
    "Quantity",
    "RateScaling",
    "Recipe",
    "Sample",
    "Schedule",
    "Source",
    "Stage",
    "Terms",
    "Unit",
    "Value",
    "axes_of",
    "rule_power",
    "split_over",
]
