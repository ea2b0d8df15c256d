"""What a shell script starts, read and never run: the scripts behind a command such as `./train.sh 64`.

    cd src; python train.py --batch-size "$1"      src/train.py
    python -m package.train "$@"                   package/train.py; the words of the command are handed on
    source setup.sh; $HERE/train.py                setup.sh, and train.py beside it

A file that is not there is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_MOST_BYTES = 1_000_000  # of a shell script
_SHELL = re.compile(r"#!\s*\S*(?:/env\s+)?(?:ba|da|z|k)?sh\b|#!.*\benv\s+(?:ba|da|z|k)?sh\b")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_FILE = re.compile(r"[\w.\-/]*[\w\-]\.(?:py|sh)(?![\w.])")
_MODULE = re.compile(r"\s-m\s+([A-Za-z_][\w.]*)")
_FOLDER = re.compile(r"(?:^|[;&|(\s])cd\s+[\"']?([\w.\-/]+)")
_VARIABLE_FOLDER = re.compile(r"\$\{?\w+\}?[\"']?/")  # `$HERE/`: which one is not known, and often the script's own
_HANDED_ON = re.compile(r"\$(?:@|\*|\{@|\{\*)")
_MOST_SCRIPTS = 20


def shell_scripts(command: Sequence[str], folder: Path) -> list[Path]:
    """Return the shell scripts that a command names: by their ending, or by their first line."""
    return [path for word in command if _is_shell(path := folder / word)]


def called_scripts(command: Sequence[str], folder: Path) -> list[Path]:
    """Return the Python and shell scripts that a command's shell scripts call, and those that these do."""
    found: dict[Path, None] = {}
    waiting = shell_scripts(command, folder)
    while waiting and len(found) < _MOST_SCRIPTS:
        shell = waiting.pop(0)
        for path in _called(shell, folder):
            if path not in found and path != shell:
                found[path] = None
                waiting += [path] if _is_shell(path) else []
    return list(found)


def hands_on(command: Sequence[str], folder: Path) -> bool:
    """Return whether a command's shell scripts hand their words on to what they call."""
    return all(_HANDED_ON.search(_text(path)) for path in shell_scripts(command, folder))


def _is_shell(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return False
    if path.suffix or path.stat().st_size < 2:
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
    named = [(found.start(), [found[0], found[0].lstrip("/")]) for found in _FILE.finditer(text)]
    named += [(found.start(), _module_files(found[1])) for found in _MODULE.finditer(text)]
    for _, names in sorted(named):
        paths = (place / name for name in names for place in places)
        first = next((path for path in paths if path.is_file()), None)
        if first is not None:
            yield first


def _module_files(module: str) -> list[str]:
    path = module.replace(".", "/")
    return [f"{path}.py", f"{path}/__main__.py"]
