"""What was asked, found, planned and measured of a job, to look at.

    samples ─predict▶ outlook ─┬─ findings ─┬─ figures ─▶ page (one HTML file)
    goal, space, cluster ──────┘            ├─ sketches ─▶ terminal
                                            └─ document ─▶ JSON

`findings` holds every number that is shown; the rest only draws. Figures are plain
dictionaries in plotly's format, so that the dashboard draws the same ones.
"""

from cotune.project.ended_runs import EndedRun
from cotune.reports.findings import Findings, find

__all__ = ["EndedRun", "Findings", "find"]
