"""The files behind a job's command, and digests of them, so that a later start knows which have changed.

    python train.py --config c.yaml     train.py, the modules beside it that it imports, c.yaml
    python -m package.train             package/train.py, or package/train/__main__.py
    ./train.sh 64                       the shell script itself

    scripts.json    {"train.py": "9f86d081..."}    in the run folder of a start, by the path in the job's folder

What a script says changes no plan: only `cotune init` reads scripts for that. A JSON file that the command names is
left out, since a start may write it. A start without digests (a recording, an import) says nothing.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from cotune.safety import private, python_text
from cotune.types import Job

_FILE = "scripts.json"
_ENDINGS = (".py", ".sh", ".yaml", ".yml")
_MOST_BYTES = 1_000_000  # of a script or a file of settings
_MOST_FILES = 20  # that scripts call or import


def python_script(command: Sequence[str], folder: Path) -> Path | None:
    """Return the Python file that a command runs, by its path, or as a module, if it can be read."""
    for word, after in pairwise((*command, "")):
        names = _module_files(after) if word == "-m" else [word] if word.endswith(".py") else []
        found = next((path for name in names if _is_readable(path := folder / name)), None)
        if found is not None:
            return found
    return None


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
        files = [file for name in sorted(names) for file in _own_files(script.parent, name)]
        new = [file for file in files if file not in found and file != script]
        found |= dict.fromkeys(new)
        waiting += new
    return list(found)


def digests(job: Job) -> dict[str, str]:
    """Return the digest of each file that says how the job trains, as far as these can be read."""
    folder = Path(job.folder)
    named = [folder / word.rpartition("=")[2] for word in job.command]
    scripts = [path for path in named if path.suffix in _ENDINGS and _is_readable(path)]
    own = python_script(job.command, folder)
    scripts += [own] if own else []
    imported = [file for script in scripts if script.suffix == ".py" for file in imported_files(script)]
    found = {}
    for path in dict.fromkeys([*scripts, *imported]):
        with contextlib.suppress(OSError):
            name = path.relative_to(folder) if path.is_relative_to(folder) else path
            found[str(name)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def note_digests(job: Job, folder: Path) -> None:
    """Write what the job's scripts are into the folder of a start, where there is one."""
    found = digests(job)
    with contextlib.suppress(OSError):  # on a full disk a later change goes unnoticed
        if found and folder.is_dir():
            private.write(folder / _FILE, json.dumps(found))


def changed_since(now: Mapping[str, str], folder: Path) -> list[str]:
    """Return the scripts that differ from those when the start of a folder began, as far as that is known."""
    try:
        then = json.loads((folder / _FILE).read_text())
    except (OSError, ValueError):
        return []
    known = then if isinstance(then, dict) else {}
    return [name for name, digest in now.items() if known.get(name, digest) != digest]


def _is_readable(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _MOST_BYTES


def _module_files(module: str) -> list[str]:
    path = module.replace(".", "/")
    return [f"{path}.py", f"{path}/__main__.py"] if all(map(str.isidentifier, module.split("."))) else []


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.module):  # from . import data
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _own_files(folder: Path, name: str) -> Sequence[Path]:
    """Return the files of a module or package that lies beside the script."""
    module = folder / f"{name}.py"
    return [module] if module.is_file() else sorted((folder / name).glob("**/*.py"))[:_MOST_FILES]
