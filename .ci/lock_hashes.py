"""Write the lock files with the hashes of every file that the package index has of each pinned version.

    python .ci/lock_hashes.py

Reads the pins of requirements.lock and writes it anew: change a version there, then run this. A second
file, requirements-runtime.lock, has those that `cotune[all]` needs to run, without what tests and docs
take. The index is the one that pip is configured for. Hashes are of all platforms and Python versions,
and of torch's CPU build as well where a folder of wheels (PIP_FIND_LINKS) has it.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version
from pip._internal.models.index import PyPI

ROOT = Path(__file__).parents[1]
LOCK, RUNTIME = ROOT / "requirements.lock", ROOT / "requirements-runtime.lock"
RUNTIME_EXTRAS = ("torch", "workloads", "postgres", "optuna", "ray", "plots", "dashboard", "pipeline", "tensorboard")
HEAD = "# {what}; written by .ci/lock_hashes.py\n# pip install --require-hashes -r {name}\n"
_FILE = re.compile(r"""href=["'][^"']*?([^/"']+?)#sha256=([0-9a-f]{64})""")
_PIN = re.compile(r"^([\w.-]+)==([^\s\\;]+)", re.MULTILINE)


@cache
def setting(name: str) -> list[str]:
    """Return what pip is configured with: by a variable, or else by its files."""
    given = os.environ.get(f"PIP_{name.upper().replace('-', '_')}")
    if given is None:
        asked = [sys.executable, "-m", "pip", "config", "get", f"global.{name}"]
        given = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return given.split()


def indexes() -> list[str]:
    """Return the package indexes that pip asks."""
    return [*(setting("index-url") or [PyPI.simple_url]), *setting("extra-index-url")]


def hashes(name: str, version: str) -> list[str]:
    """Return the sha256 of every file of a version, whatever platform it is for."""
    sums = set()
    for index in indexes():
        sums |= {digest for file, digest in files(index, canonicalize_name(name)) if is_of(file, name, version)}
    for folder in setting("find-links"):
        for wheel in Path(folder).glob("*.whl"):
            if is_of(wheel.name, name, version):
                sums.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    return sorted(sums)


@cache
def files(index: str, name: str) -> list[tuple[str, str]]:
    """Return the name and the sha256 of every file that an index lists of a package."""
    address = f"{index.rstrip('/')}/{name}/"
    if address.startswith("file:"):
        page = Path(urlsplit(address).path) / "index.html"
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
    else:
        text = ""
        asked = Request(address, headers={"Accept": "text/html"})
        with suppress(HTTPError), urlopen(asked, timeout=60) as answer:
            text = answer.read().decode()
    return [(unquote(file), digest) for file, digest in _FILE.findall(text)]


def is_of(file: str, name: str, version: str) -> bool:
    """Return whether a file is a wheel or the source of a version, a local build of it included."""
    try:
        if file.endswith(".whl"):
            found, release, *_ = parse_wheel_filename(file)
        else:
            found, release = parse_sdist_filename(file)
    except (InvalidVersion, InvalidWheelFilename, InvalidSdistFilename):
        return False
    return found == canonicalize_name(name) and release.public == str(Version(version))


def needed(pins: Iterable[str]) -> set[str]:
    """Return the pinned packages that cotune needs to run, with all extras but those of tests and docs."""
    known = {canonicalize_name(name) for name in pins}
    seen: set[str] = set()
    waiting = [Requirement(f"cotune[{','.join(RUNTIME_EXTRAS)}]")]
    while waiting:
        asked = waiting.pop()
        mark = f"{canonicalize_name(asked.name)}[{','.join(sorted(asked.extras))}]"
        if mark in seen:
            continue
        seen.add(mark)
        try:
            given = requires(asked.name) or []
        except PackageNotFoundError:
            continue
        for text in given:
            one = Requirement(text)
            extras = asked.extras or {""}
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(one)
    return {name for name in known if any(mark.startswith(f"{name}[") for mark in seen)}


def main() -> None:
    """Write both lock files with the hashes of what they pin."""
    pins = dict(_PIN.findall(LOCK.read_text(encoding="utf-8")))
    with ThreadPoolExecutor(8) as crowd:
        sums = dict(zip(pins, crowd.map(hashes, pins, pins.values()), strict=True))
    if bare := [name for name, listed in sums.items() if not listed]:
        sys.exit(f"the index has no hashes of {', '.join(bare)}")
    lines = {
        name: " \\\n".join([f"{name}=={pins[name]}", *(f"    --hash=sha256:{one}" for one in listed)])
        for name, listed in sums.items()
    }
    runtime = needed(pins)
    for path, what, chosen in (
        (LOCK, "Everything that `make` installs: to run, to test and to write the docs", list(lines)),
        (
            RUNTIME,
            "What cotune with all its extras needs to run",
            [n for n in lines if canonicalize_name(n) in runtime],
        ),
    ):
        text = HEAD.format(what=what, name=path.name) + "".join(f"{lines[name]}\n" for name in chosen)
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(chosen)} packages", file=sys.stderr)
    subprocess.run(["git", "diff", "--stat", "--", str(LOCK), str(RUNTIME)], cwd=ROOT, check=False)


if __name__ == "__main__":
    main()
