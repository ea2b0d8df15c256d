"""The lines that a script prints, with a number in the place of each value.

print(f"epoch {epoch} accuracy {accuracy:.4f}")        epoch 1 accuracy 0.5
log.info("epoch %d: loss %.3f", epoch, loss)           epoch 1: loss 0.5
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_SAYING = {"print", "info", "write", "echo", "log"}
_COUNTED = re.compile(r"(?:epoch|\bep|step|iter(?:ation)?|round)s?\W*(?:\+\s*1\W*)?$", re.IGNORECASE)  # `epoch + 1`
_PER_CENT = re.compile(r"%[-+ 0-9.]*[dfgeis]")
_FORMATTED = re.compile(rf"{_PER_CENT.pattern}|\{{[^{{}}]*\}}")
_FRACTION = re.compile(r"(?<!\.0)[fFgG]$|\.[1-9]\d*$")  # a format that shows more than whole numbers: `.1f`, not `.0f`


def printed_lines(tree: ast.Module) -> tuple[str, ...]:
    """Return lines as a script prints them."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args and called(node) in _SAYING]
    said = (_joined(call.args) for call in sorted(calls, key=lambda call: call.lineno))
    return tuple(line for text in said for line in text.splitlines() if line.strip())


def called(call: ast.Call) -> str:
    """Return the name of the function or method that is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _joined(args: Sequence[ast.expr]) -> str:
    first = args[0].value if isinstance(args[0], ast.Constant) else None
    if isinstance(first, str) and args[1:] and len(_PER_CENT.findall(first)) == len(args) - 1:
        return _filled(first).replace("%%", "%")  # as logging puts its arguments in
    line = ""
    for arg in args:
        line = f"{line} {_text(arg, line)}".strip()
    return line


def _text(node: ast.expr, before: str) -> str:
    """Return what an expression prints: its words, and a number for each value in them."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        line = ""
        for part in node.values:
            line += str(part.value) if isinstance(part, ast.Constant) else _number(part, before + line)
        return line
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return _filled(str(node.left.value))
    if isinstance(node, ast.Call) and called(node) == "format" and isinstance(node.func, ast.Attribute):
        return _filled(_text(node.func.value, before))
    if isinstance(node, ast.Call) and called(node) == "dumps" and node.args:  # json
        return _text(node.args[0], before)
    if isinstance(node, ast.Dict):
        pairs = ((_text(key, ""), value) for key, value in zip(node.keys, node.values, strict=True) if key is not None)
        return "{" + ", ".join(f"'{key}': {_text(value, key)}" for key, value in pairs) + "}"
    return _number(node, before)


def _number(node: ast.expr, before: str) -> str:
    """Return a number as a value is printed; its format decides, and else what it is called."""
    value, spec = (node.value, _spec(node)) if isinstance(node, ast.FormattedValue) else (node, "")
    counts = _COUNTED.search(before) or _COUNTED.search(ast.unparse(value))
    return _shown(spec, counts=counts is not None)


def _spec(node: ast.FormattedValue) -> str:
    """Return the format of a value in an f-string, but for what is itself a value there."""
    parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
    return "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def _filled(text: str) -> str:
    def number(found: re.Match[str]) -> str:
        spec = found[0] if found[0].startswith("%") else found[0].strip("{}").partition(":")[2]
        return _shown(spec, counts=_COUNTED.search(text[: found.start()]) is not None)

    return _FORMATTED.sub(number, text)


def _shown(spec: str, *, counts: bool) -> str:
    """Return a number in a format: a whole one for what counts, unless the format shows fractions."""
    if spec.endswith(("e", "E")):
        return "5.0e-01"
    return "1" if counts and not _FRACTION.search(spec) else "0.5"
