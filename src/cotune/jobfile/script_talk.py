"""How a training script talks, read and never run: by what its workers would meet, and the lines that it prints.

    from torch.nn.parallel import DistributedDataParallel      its workers meet
    import numpy as np                                         several copies would each train alone
    print(f"epoch {epoch} accuracy {accuracy:.4f}")            a line such as `epoch 1 accuracy 0.5`

A script that imports what cannot be looked into here may meet in there, and is believed.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cotune.safety import python_text

NOT_MEETING = (
    "nothing by which workers meet (torch.distributed, WORLD_SIZE, ...), so several would each train all of it alone"
)
_MEETING = re.compile(
    r"distributed|DataParallel|WORLD_SIZE|\bRANK\b|COTUNE_WORKERS|TF_CONFIG|MultiWorker"
    r"|cotune\.torch|cotune import torch"
)
_ALONE = {  # packages in which no workers meet unless the script says so itself
    *("numpy", "scipy", "sklearn", "pandas", "torch", "torchvision", "torchaudio", "cotune", "PIL", "matplotlib"),
    *("tqdm", "yaml", "joblib", "tensorboard", "click", "typer", "requests"),
}
_SAYING = {"print", "info", "write", "echo", "log"}
_COUNTED = re.compile(r"(?:epoch|step|iter(?:ation)?|round)s?\W*$", re.IGNORECASE)
_COUNTER = re.compile(r"(?:epoch|\bep|step|iter(?:ation)?|round)s?\W*(?:\+\s*1\W*)?$", re.IGNORECASE)  # `epoch + 1`
_EPOCHS = re.compile(r"(?<![A-Za-z])ep(?:och)?(?![A-Za-z])", re.IGNORECASE)
_PER_CENT = re.compile(r"%[-+ 0-9.]*[dfgeis]")
_FORMATTED = re.compile(rf"{_PER_CENT.pattern}|\{{[^{{}}]*\}}")
_FRACTION = re.compile(r"(?<!\.0)[fFgG]$|\.[1-9]\d*$")  # a format that shows more than whole numbers: `.1f`, not `.0f`
_MOST_FILES = 20


def workers_meet(script: Path, tree: ast.Module, text: str) -> bool:
    """Return whether workers of a script may share the work, as far as it and the files it imports can be read."""
    if _MEETING.search(text):
        return True
    names = {name.partition(".")[0] for name in _imported(tree)} - sys.stdlib_module_names - _ALONE
    own = {name: _own_files(script.parent, name) for name in names}
    if not all(own.values()):
        return True
    return any(_MEETING.search(file.read_text(errors="replace")) for files in own.values() for file in files)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.module):  # from . import data
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def imported_files(script: Path) -> list[Path]:
    """Return the files beside a script that it imports, and that these do."""
    found: dict[Path, None] = {}
    waiting = [script]
    while waiting and len(found) < _MOST_FILES:
        try:
            tree = python_text.parse(waiting.pop(0).read_text(errors="replace"), script.name)
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        names = {name.partition(".")[0] for name in _imported(tree)} - sys.stdlib_module_names
        new = [file for name in sorted(names) for file in _own_files(script.parent, name)]
        new = [file for file in new if file not in found and file != script]
        found |= dict.fromkeys(new)
        waiting += new
    return list(found)


def _own_files(folder: Path, name: str) -> Sequence[Path]:
    """Return the files of a module or package that lies beside the script."""
    module = folder / f"{name}.py"
    return [module] if module.is_file() else sorted((folder / name).glob("**/*.py"))[:_MOST_FILES]


def printed_lines(tree: ast.Module, *, only_epochs: bool = False) -> tuple[str, ...]:
    """Return lines as a script prints them, with a number wherever it puts a value.

    With `only_epochs` they are those that begin with a count of epochs in brackets: `[{ep}/{epochs}] ...`.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args and called(node) in _SAYING]
    calls = [call for call in calls if not only_epochs or _begins_with_epochs(call.args[0])]
    said = (_joined(call.args) for call in sorted(calls, key=lambda call: call.lineno))
    return tuple(line for text in said for line in text.splitlines() if line.strip())


def _begins_with_epochs(said: ast.expr) -> bool:
    """Return whether an f-string begins with a count of epochs in brackets, by what the value is called."""
    if not isinstance(said, ast.JoinedStr) or len(said.values) < 2:
        return False
    opening, count = said.values[:2]
    if not (isinstance(opening, ast.Constant) and isinstance(count, ast.FormattedValue)):
        return False
    return str(opening.value).strip() in ("[", "(") and _EPOCHS.search(ast.unparse(count.value)) is not None


def _joined(args: Sequence[ast.expr]) -> str:
    first = args[0].value if isinstance(args[0], ast.Constant) else None
    if isinstance(first, str) and args[1:] and len(_PER_CENT.findall(first)) == len(args) - 1:
        return _filled(first).replace("%%", "%")  # as logging puts its arguments in
    line = ""
    for arg in args:
        line = f"{line} {_text(arg, line)}".strip()
    return line


def called(call: ast.Call) -> str:
    """Return the name of the function or method that is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


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
    counts = _COUNTED.search(before) or _COUNTER.search(ast.unparse(value))
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


def computed_metrics(tree: ast.Module) -> tuple[str, ...]:
    """Return the names that a Trainer's `compute_metrics` gives what it works out: keys that it returns, or loads."""
    named = {"compute_metrics"} | {
        word.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "compute_metrics" and isinstance(word.value, ast.Name)
    }
    makers = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in named]
    returned = [node.value for maker in makers for node in ast.walk(maker) if isinstance(node, ast.Return)]
    found = [name for value in returned for name in _keys(value)]
    if makers and not found:  # what a library works out is called as it was loaded: evaluate.load("accuracy")
        found = [
            node.args[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("evaluate.load", "load_metric") and node.args
            if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
        ]
    return tuple(dict.fromkeys(found))


def _keys(value: ast.expr | None) -> list[str]:
    """Return the keys of a dictionary as it is written: in braces, or by a call of dict."""
    if isinstance(value, ast.Dict):
        return [key.value for key in value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "dict":
        return [word.arg for word in value.keywords if word.arg]
    return []
