"""What a worker would import anyway, imported once before it is forked or timed.

A program may need torch unless it is another executable, or a script that imports
nothing but the standard library, numpy and cotune itself. On an emulated node every
worker needs it, since that is where its arithmetic is slowed down.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

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
    gc.collect()
    gc.freeze()  # else every child's first collection would copy all pages


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
