"""How a learning rate follows the global batch where the job file does not say: by the kind of optimiser.

    rate = at x (global_batch / batch) ^ p        SGD: linear, p = 1        Adam and its like: sqrt, p = 1/2

On published trainings of language models `power(p)` with p from 0.25 to 0.33 loses least when the batch changes, and
the linear rule most.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.jobfile.script import Script


@dataclass(frozen=True, slots=True)
class ChosenRule:
    """A learning-rate rule that the file leaves open, and why it was taken."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"the learning rate follows the global batch by the rule {self.name}: {self.reason}"


def rule_for(script: Script | None) -> ChosenRule:
    """Return the rule for the optimiser that a script names."""
    if script is None or script.optimiser is None:
        return ChosenRule("linear", "no one optimiser is named by the script; `lr.rule` says otherwise")
    named = f"{script.optimiser.name} in {script.optimiser.where}"
    return ChosenRule("sqrt" if script.optimiser.adam_like else "linear", named)
