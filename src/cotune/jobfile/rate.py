"""How a job's learning rate follows the global batch: as its file says, or its script, read and never run.

    lr: {at: 0.1, global_batch: 64, rule: linear}       scaled; `rule: fixed` is fixed
    args.lr * world_size, lr *= batch_size / 256        scaled by the script itself
    SGD(parameters, lr=args.lr), --lr 0.1               fixed: the same rate whatever the batch

Of a command that names no learning rate, and whose script names none or cannot be read, nothing is known. Where the
file has a rate and no rule, the kind of optimiser decides:

    rate = at x (global_batch / batch) ^ p        SGD: linear, p = 1        Adam and its like: sqrt, p = 1/2

On published trainings of language models `power(p)` with p from 0.25 to 0.33 loses least when the batch changes, and
the linear rule most.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotune.jobfile.script import Script, file_of
from cotune.safety import python_text
from cotune.types import LearningRate, RateScaling, rule_power

_RATE = re.compile(r"(?:^|_)lr(?:$|_)|learning_?rate", re.IGNORECASE)
_SIZE = re.compile(
    r"batch|(?:^|_)bsz?(?:$|_)|world|worker|replica|num_?gpus|n_?gpus|device_?count|accum", re.IGNORECASE
)


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


def scaling_of(lr: LearningRate | None, command: Sequence[str], folder: Path) -> RateScaling:
    """Return whether the rate grows with the global batch, as far as can be read."""
    if lr is not None:
        return "scaled" if rule_power(lr.rule) > 0 else "fixed"
    tree = _parsed(command, folder)
    if any(_scales(node) for node in ast.walk(tree)):
        return "scaled"
    words = (word.lstrip("-").partition("=")[0].replace("-", "_") for word in command if "=" in word or word[:1] == "-")
    return "fixed" if _tells(_RATE, tree) or any(map(_RATE.search, words)) else "unknown"


def _parsed(command: Sequence[str], folder: Path) -> ast.Module:
    """Return the command's script, empty where there is none that can be read."""
    path = file_of(command, folder)
    if path is None:
        return ast.Module([], [])
    try:
        return python_text.parse(path.read_text(errors="replace"), str(path))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _scales(node: ast.AST) -> bool:
    """Return whether code makes a rate of a product with something that counts examples or workers."""
    if isinstance(node, ast.BinOp):
        return _is_product(node) and _tells(_RATE, node) and _tells(_SIZE, node)
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Mult | ast.Div) and _tells(_RATE, node.target) and _tells(_SIZE, node.value)
    if isinstance(node, ast.keyword):
        return bool(node.arg and _RATE.search(node.arg)) and _counts(node.value)
    return isinstance(node, ast.Assign) and any(_tells(_RATE, one) for one in node.targets) and _counts(node.value)


def _counts(value: ast.expr) -> bool:
    """Return whether a product in an expression has a factor that counts examples or workers."""
    return any(_is_product(node) and _tells(_SIZE, node) for node in ast.walk(value))


def _is_product(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)


def _tells(what: re.Pattern[str], tree: ast.AST) -> bool:
    return any(what.search(name) for name in _names(tree))


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the variables, attributes and keywords of a piece of code, and the words it looks up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 40:
            yield node.value.lstrip("-").replace("-", "_")
