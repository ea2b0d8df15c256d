"""The constants of probing and prediction that data chose, with what they were chosen on.

Every constant is the best over the sources named beside it, each source weighing the same; the scores are those of a
source when it had no part in the choice, and when it had (lower is better).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constants:
    """What the sources chose."""

    # few_configs: dlperf, elasticflow, gavel, llm, mlperf, pollux, vtrain, zeus, own; left out 0.423, in sample 0.42
    few_configs: float = 0.0  # a process of n samples is over-confident by this / n
    usual_surprise: float = 0.75  # deviations by which a process usually misses samples left out
    least_spread: float = 0.8  # over the error on configs left out, however sure a process is of others
    # probe_weight: all goals of Pollux and MLPerf, before sources were left out
    probe_weight: float = 0.6  # of the price of a probe: a plan is used more than once
    least_gain: float = 0.05  # of the plan's cost, below which nothing more is measured
    # starts_shared: published repeats on shared clusters (Pollux: the same shape on other nodes); not by this command
    starts_shared: float = 0.04  # of sigma between starts, in ln seconds, on machines not known to be idle


CONSTANTS = Constants()
