"""The files behind a job's command, and digests of them, so that a later start knows which have changed.

    python train.py --config c.yaml     train.py, the modules beside it that it imports, c.yaml
    python -m package.train             package/train.py, or package/train/__main__.py
    ./train.sh 64                       the shell script, and what it calls: `python train.py "$@"`, `source setup.sh`

    scripts.json    {"train.py": "9f86d081..."}    in the run folder of a start, by the path in the job's folder

What a script says changes no plan: only `cotune init` reads scripts for that. A JSON file that the command names is
left out, since a start may write it. A start without digests (a recording, an import) says nothing.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from cotune.safety import private, python_text
from cotune.types import Job

_FILE = "scripts.json"
_MOST_BYTES = 1_000_000  # of a script or a file of settings
_MOST_FILES = 20  # that scripts call or import
_SHELL = re.compile(r"#!\s*\S*(?:/env\s+)?(?:ba|da|z|k)?sh\b|#!.*\benv\s+(?:ba|da|z|k)?sh\b")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_NAMED = re.compile(r"[\w.\-/]*[\w\-]\.(?:py|sh)(?![\w.])")
_MODULE = re.compile(r"\s-m\s+([A-Za-z_][\w.]*)")
_FOLDER = re.compile(r"(?:^|[;&|(\s])cd\s+[\"']?([\w.\-/]+)")
_VARIABLE_FOLDER = re.compile(r"\$\{?\w+\}?[\"']?/")  # `$HERE/`: which one is not known, and often the script's own
_ALL_WORDS = re.compile(r"\$(?:@|\*|\{@|\{\*)")


def python_script(command: Sequence[str], folder: Path) -> Path | None:
    """Return the Python file that a command runs, by its path, as a module or by a shell script, if it can be read."""
    for word, after in pairwise((*command, "")):
        names = _module_files(after) if word == "-m" else [word] if word.endswith(".py") else []
        found = next((path for name in names if _is_readable(path := folder / name)), None)
        if found is not None:
            return found
    return next((path for path in called_scripts(command, folder) if path.suffix == ".py"), None)


def called_scripts(command: Sequence[str], folder: Path) -> list[Path]:
    """Return the Python and shell scripts that a command's shell scripts call, and those that these do."""
    found: dict[Path, None] = {}
    waiting = _shell_scripts(command, folder)
    while waiting and len(found) < _MOST_FILES:
        shell = waiting.pop(0)
        for path in _called(shell, folder):
            if path not in found and path != shell:
                found[path] = None
                waiting += [path] if _is_shell(path) else []
    return list(found)


def forwards_words(command: Sequence[str], folder: Path) -> bool:
    """Return whether a command's shell scripts pass their arguments on to what they call."""
    return all(_ALL_WORDS.search(_text(path)) for path in _shell_scripts(command, folder))


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
    own = python_script(job.command, folder)
    named = [folder / word for word in job.command if word.endswith((".py", ".sh"))]
    named += [own] if own else []
    scripts = [*named, *_shell_scripts(job.command, folder), *called_scripts(job.command, folder)]
    scripts = [path for path in dict.fromkeys(scripts) if _is_readable(path)]
    imported = [file for script in scripts if script.suffix == ".py" for file in imported_files(script)]
    found = {}
    for path in dict.fromkeys([*scripts, *imported, *_settings_files(job, folder)]):
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


def _settings_files(job: Job, folder: Path) -> Iterator[Path]:
    """Yield the YAML files that the command names: `--config train.yaml`, `--config=train.yaml`."""
    for word in job.command:
        path = folder / word.rpartition("=")[2]
        if path.suffix in (".yaml", ".yml") and _is_readable(path):
            yield path


def _shell_scripts(command: Sequence[str], folder: Path) -> list[Path]:
    """Return the shell scripts that a command names: by their ending, or by their first line."""
    return [path for word in command if _is_shell(path := folder / word)]


def _is_readable(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _MOST_BYTES


def _is_shell(path: Path) -> bool:
    if not _is_readable(path):
        return False
    if path.suffix:
        return path.suffix == ".sh"
    with path.open("rb") as file:
        return _SHELL.match(file.readline(100).decode(errors="replace")) is not None


def _text(path: Path) -> str:
    return _COMMENT.sub("", path.read_text(errors="replace"))


def _called(shell: Path, folder: Path) -> Iterator[Path]:
    """Yield the scripts that a shell script names and that are there: from its folder, the job's, or one it goes to."""
    text = _VARIABLE_FOLDER.sub("", _text(shell))
    beside = dict.fromkeys((folder, shell.parent))
    places = [*beside, *(base / went for base in beside for went in _FOLDER.findall(text))]
    named = [(found.start(), [found[0], found[0].lstrip("/")]) for found in _NAMED.finditer(text)]
    named += [(found.start(), _module_files(found[1])) for found in _MODULE.finditer(text)]
    for _, names in sorted(named):
        paths = (place / name for name in names for place in places)
        first = next((path for path in paths if _is_readable(path)), None)
        if first is not None:
            yield first


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
