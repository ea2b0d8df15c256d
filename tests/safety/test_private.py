"""What others on the machine may see of a user's jobs, and which folders of theirs are used: none."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from cli.jobs import cotune
from cotune.run.local.shares import Claims
from cotune.safety import private
from cotune.store import open_store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a runtime folder, whose temporary and cache folders are ours."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if Path(f"/run/user/{os.getuid()}").is_dir():
        pytest.skip("this machine has a runtime folder")
    return tmp_path / f"cotune-{os.getuid()}"


def test_the_runtime_folder_is_the_given_one_where_it_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert private.runtime_folder() == tmp_path / "cotune"
    assert mode(tmp_path / "cotune") == 0o700


@pytest.mark.parametrize("kind", ["link", "file", "open"])
def test_a_folder_that_somebody_else_laid_out_is_not_used(elsewhere: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "theirs"
    target.mkdir()
    if kind == "link":
        elsewhere.symlink_to(target)
    elif kind == "file":
        elsewhere.touch()
    else:
        elsewhere.mkdir()
        elsewhere.chmod(0o777)
    found = private.runtime_folder()
    assert found == tmp_path / "cache" / "cotune" / "run"
    Claims("core").claim(0)
    assert list(target.iterdir()) == []
    assert (found / "core-0").is_file()


def test_a_claim_follows_no_link(elsewhere: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    private.runtime_folder()
    (elsewhere / "core-0").symlink_to(victim)
    Claims("core").claim(0)
    assert not victim.exists()


def test_a_file_that_others_could_read_is_closed_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "told.json"
    path.write_text("old and longer")
    path.chmod(0o644)
    private.write(path, "new")
    assert (path.read_text(), mode(path)) == ("new", 0o600)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"link"):
        private.write(tmp_path / "link", "x")


def test_a_new_store_and_its_journal_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path)):
        for file in tmp_path.iterdir():
            assert mode(file) == 0o600, file.name


def test_everything_a_profile_writes_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import cotune\nprint('hello')\nfor e in range(3): cotune.report(epoch=e, accuracy=e / 3)\n"
    )
    command = (sys.executable, "train.py", "{batch_size}")
    assert cotune(tmp_path, "init", "--examples", "100", "--", *command).code == 0
    done = cotune(tmp_path, "profile", "-w", "1", "-b", "8", "--budget", "60s")
    assert done.code == 0, done.err
    project = tmp_path / ".cotune"
    assert mode(project) == 0o700
    assert mode(project / "store.db") == 0o600
    runs = [path for path in (project / "runs").iterdir() if path.is_dir()]
    assert runs
    assert {mode(path) for path in (project / "runs", *runs)} == {0o700}
    logs = [*project.rglob("rank-*.log"), *project.rglob("rank-*.jsonl")]
    assert {mode(path) for path in logs} <= {0o600}
