"""The schedule of the learning rate that a script has, by name or by hand; nothing of the script is run.

    CosineAnnealingLR(opt, T_max=args.epochs)              a class, a function, an argument or a flag names it
    lr = peak if step < start else peak * (n - step) / m   the places that steps are compared with are worked out

They are worked out for a run and for a longer one: what grows is a share of a run, what stays is counted. A schedule
that ends after a fixed number of epochs is unknown, and so is one of several.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cotune.init.printing import called
from cotune.types import Schedule, Unit

_KINDS = {
    "constant": r"constant\w*|none|fixed|get_constant\w+",
    "cosine": r"(get_|warmup_)?cos(ine)?(_?annealing|_?decay|_with_min_lr)?(_?schedule\w*)?(lr)?",
    "linear": r"(get_)?(linear|poly)\w*",
    "one_cycle": r"one_?cycle(lr)?|1cycle",
    "wsd": r"(get_)?(wsd|warmup_stable|trapezoid)\w*",
    "step": r"(multi_?)?step(lr)?",
}
_CLASS = re.compile(r"(?<!Sequential)LR(OnPlateau)?$|WarmRestarts$|^get_\w*schedule|[Cc]osine_?[Dd]ecay")
_NAMED = re.compile(r"^(\w+_)?sched\w*$|^(lr|rate|learning_rate)_(decay_style|policy|decay)$")
_WARMUP = re.compile(r"warmup_(ratio|frac\w*|prop\w*|pct|epochs?|steps|iters|iterations)$|^(lr_)?warmup$")
_DECAY = re.compile(r"(decay|cooldown|warmdown)_(steps|iters|frac\w*|ratio)$")
_LENGTH = re.compile(
    r"^(?!.*(warm|eval|val|log|save|cool|decay|accum|per_))(\w+_)?(steps|iters|iterations|epochs|total)$"
)
_SETS = re.compile(r"(?:\W|^)lr(?:'\])? [*/]?= |^def (?:\w+_)?(?:lr|rate|sched\w*)(?:_\w+)?\(")
_LONGER = 100
_BATCHES = 100.0  # len(...): any number will do, as shares of a run are asked
_FAR = 10  # times the length of a run: what is further is counted in another unit
_MANY = 10  # milestones, from which on a rate that falls in steps falls all the time
_EARLY = 0.3  # of a run, until which the rate may rise
_NOT_KNOWN = (LookupError, ArithmeticError, ValueError, TypeError, RecursionError, AttributeError)
_SIGNS = {"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "USub": "neg"}
_FUNCTIONS: Mapping[str, Any] = {"min": min, "max": max, "int": int, "float": float, "round": round}


class ScriptSchedule:
    """The schedules of a script whose progress is in some unit; `assigned` has the values of its names."""

    def __init__(self, nodes: Sequence[ast.AST], assigned: Mapping[str, ast.expr], unit: Unit) -> None:
        self.nodes, self.assigned, self.unit = nodes, assigned, unit
        self.functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
        self.whole = {"epochs": self._whole("epochs", 30.0)}
        self.whole["steps"] = self._whole("steps", self.whole["epochs"] * _BATCHES)

    def _whole(self, unit: str, usual: float) -> float:
        names = [name for name in self.assigned if _LENGTH.search(name) and ("epoch" in name) == (unit == "epochs")]
        return max((self._number(self.assigned[name], 0.0) for name in names), default=0.0) or usual

    def read(self) -> tuple[Schedule, ast.AST] | None:
        """Return the schedule, and the code that says so; None where there is none."""
        calls = sorted((node for node in self.nodes if isinstance(node, ast.Call)), key=lambda call: call.lineno)
        found: list[tuple[Schedule, ast.AST]] = [(told, call) for call in calls for told in self._called(call)]
        warmup = max((told.warmup for told, _ in found), default=0.0) or self._stated(_WARMUP)
        if not found:
            found = list(self._by_hand())[:1]
            warmup = found[0][0].warmup if found else warmup
        kinds = {told.kind: (told, code) for told, code in reversed(found) if told.kind not in ("warmup", "unknown")}
        if len(kinds) > 1:
            kinds.pop("constant", None)
        told, code = kinds.popitem()[1] if len(kinds) == 1 else (Schedule("unknown"), found[0][1] if found else None)
        for name, node in self.assigned.items():
            if _NAMED.search(name) and isinstance(node, ast.Constant) and isinstance(node.value, str):
                kind, code = _kind(node.value), node
                told = kinds[kind][0] if kind in kinds else told if told.kind == kind else self._wsd(kind)
                break
        if code is None:
            return None
        return (told if told.kind in ("one_cycle", "unknown") else told._replace(warmup=warmup)), code

    def _called(self, call: ast.Call) -> Iterator[Schedule]:
        """Yield what a call makes of the rate; of kind `warmup` where that is all."""
        name, words = called(call), {word.arg: word.value for word in call.keywords}
        if not _CLASS.search(name):
            return

        def of(place: int, *keywords: str) -> ast.expr | None:
            later = call.args[place] if len(call.args) > place else None
            return next((words[one] for one in keywords if one in words), later)

        kind, place = _kind(name), 2 if name.startswith("get_") else 1
        if name == "get_scheduler":
            kind, place = _kind(getattr(of(0, "name"), "value", "")), 3
        warmup = self._place(of(place - 1, "num_warmup_steps"), unit="steps") if place > 1 else 0.0
        if name == "LambdaLR":
            code = of(1, "lr_lambda") or call
            yield self._written(self.functions.get(getattr(code, "id", ""), code)) or Schedule("unknown")
        elif name == "LinearLR":
            length = self._place(of(3, "total_iters"), 5.0)
            rises = self._number(of(2, "end_factor"), 1.0) >= self._number(of(1, "start_factor"), 1 / 3)
            falls = Schedule("wsd", (length,)) if 0 < length < 0.7 else Schedule("unknown" if length > 1 else "linear")
            yield Schedule("warmup", warmup=length) if rises else falls
        elif kind == "step":
            yield self._steps(of(1, "milestones", "step_size"), self._number(of(2, "gamma"), 0.1))
        elif kind == "one_cycle":
            yield Schedule(kind, warmup=self._number(words.get("pct_start"), 0.0))
        elif kind == "wsd":
            yield self._wsd(kind, of(2, "num_decay_steps"))._replace(warmup=warmup)
        else:
            total = of(place, "T_max", "num_training_steps", "decay_steps", "total_iters")
            fixed = kind != "constant" and self._number(total, 0.0) == self._number(total, 1.0, _LONGER)
            yield Schedule("unknown" if fixed or self._number(words.get("power"), 1) != 1 else kind, warmup=warmup)

    def _by_hand(self) -> Iterator[tuple[Schedule, ast.AST]]:
        """Yield what loops and functions make of the rate, the innermost first."""
        for node in reversed(self.nodes):
            if isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.Module):
                code = [one for one in node.body if _SETS.search(ast.unparse(one))]
                named = isinstance(node, ast.FunctionDef) and _SETS.search(f"def {node.name}(")
                told = self._written(node if named else ast.Module(code, []))
                if told is not None:
                    yield told, (node if named else code[0])

    def _written(self, code: ast.AST) -> Schedule | None:
        """Return the schedule of code that works out the rate: by its signs, and what it divides steps by."""
        text, early, late = ast.unparse(code), 0.0, 0.0
        for node in ast.walk(code):
            match node:
                case (
                    ast.BinOp(op=ast.FloorDiv(), right=places)
                    | ast.Compare(ops=[ast.In()], comparators=[ast.List() | ast.Tuple() as places])
                ):
                    factor = re.search(r"([\d.]+) \*\* \(|\*= ([\d.]+)", text)
                    return self._steps(places, float(factor[1] or factor[2]) if factor else 0.1)
                case ast.BinOp(left=done, op=ast.Div(), right=length):
                    share = self._share(self._place(length))
                    if " - " in ast.unparse(done):
                        late = max(late, 1 - share if _EARLY <= 1 - share < 1 else 0.0)
                    else:
                        early = max(early, share if share < _EARLY else 0.0)
        kind = "cosine" if "cos(" in text else "unknown" if "**" in text else "wsd" if late else "linear"
        if kind == "linear" and not (" - " in text and " / " in text):
            return Schedule("constant", warmup=early) if early else None
        early = early or ("warm" in text and self._stated(_WARMUP)) or 0.0
        return Schedule(kind, (round(1 - late, 2),) if kind == "wsd" else (), warmup=early)

    def _steps(self, node: ast.expr | None, factor: float) -> Schedule:
        """Return a rate that falls at milestones, or at regular intervals."""
        if isinstance(node, ast.List | ast.Tuple):
            places = [self._place(one) for one in node.elts]
        else:
            each = self._place(node)
            times = (1 if each < 1 else self.whole[self.unit]) * 0.999 / each if each else 0
            if times > _MANY:
                return Schedule("unknown")
            places = [each * number for number in range(1, max(int(times), 1) + 1)]
        found = Schedule("step", tuple(places), factor)
        return found if all(places) and found.is_possible else Schedule("step", (), factor)

    def _wsd(self, kind: str, decay: ast.expr | None = None) -> Schedule:
        """Return a schedule that is only named; of wsd with the share that a setting states."""
        share = round(self._share(self._place(decay) or self._stated(_DECAY)), 2)
        return Schedule(kind, (share,) if kind == "wsd" and 0 < share < 1 else ())

    def _stated(self, wanted: re.Pattern[str]) -> float:
        found = [(name, node) for name, node in self.assigned.items() if wanted.search(name)]
        units = ["epochs" if "epoch" in name else "steps" if re.search("step|iter", name) else "" for name, _ in found]
        places = [self._place(node, unit=unit) for (_, node), unit in zip(found, units, strict=True)]
        return max(places, default=0.0)

    def _share(self, place: float) -> float:
        return place if place < 1 else round(place / self.whole[self.unit], 3)

    def _place(self, node: ast.expr | None, usual: float = 0.0, unit: str = "") -> float:
        """Return a place in a run: below 1 a share of it, else counted as the job counts; 0 where it is not known."""
        first, later = self._number(node, usual), self._number(node, usual, _LONGER)
        if later > first:
            wholes = (*self.whole.values(), self.whole["epochs"] * _BATCHES)
            share = later / _LONGER / min((one for one in wholes if one >= first), default=math.inf)
            return min(round(share, 3), 0.999)
        known = first <= _FAR * self.whole[self.unit] and unit in ("", self.unit)
        return first if first < 1 or known else 0.0

    def _number(self, node: ast.expr | None, usual: float, times: int = 1) -> float:
        found = value_of(node, self.assigned, times)
        return usual if found is None else found


def value_of(
    node: ast.AST | None, assigned: Mapping[str, ast.expr] = MappingProxyType({}), times: int = 1
) -> float | None:
    """Return the value of arithmetic, in a run `times` as long; None where it is not known."""
    try:
        return None if node is None else _worked_out(node, assigned, times)
    except _NOT_KNOWN:
        return None


def _worked_out(node: ast.AST, assigned: Mapping[str, ast.expr], times: int) -> float:
    match node:
        case ast.Constant(value=int() | float() as plain):
            return float(plain)
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            grows = _LENGTH.search(name) and isinstance(assigned[name], ast.Constant)
            return _worked_out(assigned[name], assigned, times) * (times if grows else 1)
        case ast.Call(args=args) if called(node) == "len":
            return _BATCHES
        case ast.Call(args=args):
            return float(_FUNCTIONS[called(node)](*(_worked_out(arg, assigned, times) for arg in args)))
        case ast.BinOp(op=sign) | ast.UnaryOp(op=sign):
            parts = [_worked_out(part, assigned, times) for part in ast.iter_child_nodes(node) if part is not sign]
            return float(getattr(operator, _SIGNS[type(sign).__name__])(*parts))
    raise LookupError


def _kind(name: object) -> str:
    plain = str(name).lower().replace("-", "_")
    return next((kind for kind, names in _KINDS.items() if re.fullmatch(names, plain)), "unknown")
