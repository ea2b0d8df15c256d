"""The plug-in's algorithms keep to what cotune asks of its own."""

from cotune_nearest.nearest import Nearest
from cotune_nearest.youngest import Youngest

from cotune.cluster.testing import PolicyConformance
from cotune.testing import PredictorConformance


class TestNearest(PredictorConformance):
    """The predictor."""

    algorithm = Nearest()


class TestYoungest(PolicyConformance):
    """The policy."""

    algorithm = Youngest()
