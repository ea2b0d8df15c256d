"""What is installed: by hash, what runs apart from what tests, and with the notices that belong to it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-runtime.lock")
TESTING = {"pytest", "hypothesis", "mypy", "ruff", "playwright", "moto", "mkdocs", "simpy"}


def pins(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return package -> (version, hashes) of a lock file."""
    found = {}
    for block in re.split(r"\n(?=\S)", (ROOT / name).read_text()):
        if pin := re.match(r"([\w.-]+)==(\S+)", block):
            found[pin[1].lower()] = (pin[2], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", block)))
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_pinned_with_the_hashes_of_its_files(lock: str) -> None:
    found = pins(lock)
    assert len(found) > 40
    assert [name for name, (_, hashes) in found.items() if not hashes] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_names_where_packages_come_from(lock: str) -> None:
    assert "://" not in (ROOT / lock).read_text()


def test_what_runs_is_a_part_of_what_tests_and_takes_no_tests_along() -> None:
    everything, runtime = (pins(lock) for lock in LOCKS)
    assert runtime.items() <= everything.items()
    assert not TESTING & set(runtime)
    assert set(everything) >= TESTING
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w.-]+", entry)[0].lower() for entry in project["dependencies"]}  # type: ignore[index]
    assert needed <= set(runtime)


def test_the_notice_goes_with_the_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert (ROOT / "NOTICE").read_text().startswith("cotune\nCopyright")
