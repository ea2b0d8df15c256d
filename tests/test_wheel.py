"""The wheel, in an environment that has what it asks for and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from recording.folders import recording

ROOT = Path(__file__).parents[1]
TRACE = "job_id,submit_s,gpus,duration_s\nfirst,0,4,100\nsecond,1,8,10\n"
pytestmark = pytest.mark.xdist_group("wheel")  # built and installed once


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = "from setuptools import build_meta; import sys; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(out)], cwd=copy, check=True, capture_output=True)
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the wheel and with links to what it requires without extras."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
        (name,) = (entry for entry in packed.namelist() if entry.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(packed.read(name).decode())
    for found in required(metadata.get_all("Requires-Dist") or []):
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))))
    program = folder / "bin" / "cotune"
    program.write_text(f"#!{folder}/bin/python\nfrom cotune.cli.main import main\nmain()\n")
    program.chmod(0o755)
    return program.parent


def required(asked: list[str]) -> Iterator[Distribution]:
    """Yield the distributions that requirements lead to, without extras."""
    seen: set[str] = set()
    waiting = list(asked)
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.name.lower() in seen or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        seen.add(wanted.name.lower())
        found = distribution(wanted.name)
        assert wanted.specifier.contains(found.version, prereleases=True), f"{found.version} is not {wanted}"
        waiting += found.requires or []
        yield found


def cotune(bin_folder: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{bin_folder}:/usr/bin:/bin", "XDG_DATA_HOME": str(folder / "data"), "HOME": str(folder)}
    command = [str(bin_folder / "cotune"), *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_it_starts_and_lists_its_verbs(bin_folder: Path, tmp_path: Path) -> None:
    done = cotune(bin_folder, tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout
    assert cotune(bin_folder, tmp_path, "algorithms").returncode == 0


def test_it_plans_on_a_recording(bin_folder: Path, tmp_path: Path) -> None:
    recording(tmp_path / "rec")
    done = cotune(bin_folder, tmp_path, "plan", "--recording", "rec", "--target", "accuracy=0.3", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["config"]["workers"] >= 1


def test_it_simulates(bin_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    done = cotune(bin_folder, tmp_path, "simulate", "trace.csv", "--cluster", "8", "--policy", "fifo,joint", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"]["fifo"]["makespan"] == 110.0


def test_its_own_data_is_in_it(bin_folder: Path, tmp_path: Path) -> None:
    done = cotune(bin_folder, tmp_path, "prices", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["prices"]) > 5


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("tensorboard", ("import", "tensorboard", "events.out.tfevents.1")),
        ("optuna", ("import", "optuna", "journal.log")),
        ("optuna", ("plan", "--recording", "rec", "--target", "accuracy=0.3", "--search", "bayesian")),
        ("postgres", ("samples", "--store", "postgresql://nobody@localhost/none")),
        ("ray", ("run", "--engine", "ray", "-w", "1", "-b", "1", "--", "python", "train.py", "{batch_size}")),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    extra: str, words: tuple[str, ...], bin_folder: Path, tmp_path: Path
) -> None:
    recording(tmp_path / "rec")
    for name in ("train.py", "events.out.tfevents.1"):
        (tmp_path / name).write_text("")
    (tmp_path / "journal.log").write_text("{}\n")
    done = cotune(bin_folder, tmp_path, *words)
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"pip install 'cotune[{extra}]'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
