"""What a worker would import anyway, imported once before it is forked or timed.

A program may need torch unless it is another executable, or a script that imports
nothing but the standard library, numpy and cotune itself. On an emulated node every
worker needs it, since that is where its arithmetic is slowed down. A program of this package is known
to do nothing when it is imported, so all that it imports is imported here.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from cotune.registry import is_there
from cotune.run.local.messages import Group, Program

_TORCH = ("torch", "torch.distributed", "torch.nn.parallel", "torch._dynamo", "torch.optim")
_WITHOUT_TORCH = {"numpy", "cotune", *sys.stdlib_module_names} - {"runpy"}
_LOADERS = {"import_module", "exec_module", "load_module", "__import__", "exec"}
_MAY_BRING_TORCH = {"cotune.torch", "importlib.import_module", *_LOADERS}


def preload(group: Group) -> None:
    """Import what the workers of a launch will want."""
    if group.program.kind == "exec":
        return
    importlib.import_module("numpy")
    wanted = any(worker.node for worker in group.workers) or may_need_torch(group.program, group.cwd)
    if wanted and importlib.util.find_spec("torch") is not None:
        for name in _TORCH:
            importlib.import_module(name)
        _preload_own(group.program)
    gc.collect()
    gc.freeze()  # else every child's first collection would copy all pages


def _preload_own(program: Program) -> None:
    """Import what a module of this package imports of it; not the module itself, which is yet to be run."""
    found = importlib.util.find_spec(program.target) if program.kind == "module" and _is_own(program.target) else None
    if found is None or found.origin is None:
        return
    for node in ast.parse(Path(found.origin).read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and node.module and _is_own(node.module):
            inside = (f"{node.module}.{alias.name}" for alias in node.names)
            for name in (node.module, *filter(is_there, inside)):
                importlib.import_module(name)


def _is_own(module: str) -> bool:
    return module.startswith("cotune.")


def may_need_torch(program: Program, folder: str) -> bool:
    """Say whether a program imports anything that might import torch."""
    if program.kind != "script":
        return program.kind == "module"
    try:
        tree = ast.parse((Path(folder) / program.target).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True
    return any(name in _MAY_BRING_TORCH or name.partition(".")[0] not in _WITHOUT_TORCH for name in _imported(tree))


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield what a script imports, and by which other means it might."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Name) and node.id in _LOADERS:
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in _LOADERS:
            yield node.attr
