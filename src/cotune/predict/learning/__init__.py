"""One posterior over one family of learning curves: before a run, while it runs and after it.

    runs that were seen ─ observations ─▶ likelihood ─ sampler ─▶ Posterior ─ paths ─▶ draws of whole future curves

`family.py` has the formula. `prior.json` is what recorded tasks showed; `benchmarks/learning_prior.py` remakes it.
"""

from cotune.predict.learning.future_curves import Posterior, first_met
from cotune.predict.learning.observations import JobFacts, Run
from cotune.predict.learning.prior import CurvePrior

__all__ = ["CurvePrior", "JobFacts", "Posterior", "Run", "first_met"]
