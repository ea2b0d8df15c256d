"""Conformance suites: what every algorithm of a kind must keep to, for ours and for yours.

    class TestNearest(PredictorConformance):
        algorithm = Nearest()

pytest finds the class by its name and runs the suite on `algorithm`. The suites of the rooms are in the
rooms: `cotune.cluster.testing`, `cotune.placement.testing`, `cotune.lab.testing`.
"""

from cotune.testing.engines import EngineConformance
from cotune.testing.predictors import PredictorConformance
from cotune.testing.searches import SearchConformance

__all__ = ["EngineConformance", "PredictorConformance", "SearchConformance"]
