"""A project that is moved or copied takes its samples and plans along; no other job's rows are touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from records import JOB, plan, sample

from cotune.store import Store, open_store
from cotune.store.moved import bring_along
from cotune.types import Job


def job_in(folder: Path) -> Job:
    return replace(JOB, folder=str(folder))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a job that was measured in its folder."""
    folder = tmp_path / "old"
    measure(folder, folder)
    return folder


def measure(project: Path, folder: Path, name: str = "a") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (project / ".cotune").mkdir(exist_ok=True)
    with open_store(None, folder) as store:
        store.save(job_in(folder), sample(name, folder=str(project / ".cotune" / "runs" / name)))
        store.save_plan(job_in(folder), plan())


@pytest.mark.parametrize("take", [shutil.move, shutil.copytree])
def test_a_project_that_is_moved_or_copied_knows_its_samples_and_plans(
    project: Path, take: Callable[[Path, Path], object]
) -> None:
    new = project.with_name("new")
    take(project, new)
    with open_store(None, new) as store:
        words = bring_along(store, job_in(new))
        assert words == f"this project was in {project} before: 1 sample of lenet5 came along, and its plans"
        (found,) = store.samples(job_in(new))
        assert (found.id, found.folder) == ("a", str(new / ".cotune" / "runs" / "a"))
        assert store.latest_plan(job_in(new)) == plan()
        (known,) = store.jobs()
        assert (known.fingerprint, known.definition.folder) == (job_in(new).fingerprint, str(new))
        assert bring_along(store, job_in(new)) is None
        store.save(job_in(new), sample("b"))
        assert len(store.samples(job_in(new))) == 2
    if project.exists():
        with open_store(None, project) as store:
            assert len(store.samples(job_in(project))) == 1, "what was copied stays as it is"


def test_a_job_comes_along_by_whatever_metric_it_was_measured(project: Path) -> None:
    with open_store(None, project) as store:
        store.save(replace(job_in(project), metric="loss", better="lower"), sample("b"))
    new = project.rename(project.with_name("new"))
    with open_store(None, new) as store:
        assert "2 samples" in str(bring_along(store, job_in(new)))
        assert len(store.samples(replace(job_in(new), metric="loss", better="lower"))) == 1


def test_two_folders_of_one_project_keep_their_own_also_when_it_is_moved(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for place in ("one", "two"):
        measure(old, old / place, place)
    with open_store(None, old) as store:
        assert bring_along(store, job_in(old / "three")) is None
        assert bring_along(store, job_in(old)) is None
    old.rename(new)
    with open_store(None, new) as store:
        assert bring_along(store, job_in(new / "three")) is None
        for place in ("one", "two"):
            assert bring_along(store, job_in(new / place)) is not None
            assert [found.id for found in store.samples(job_in(new / place))] == [place]


def test_another_command_brings_nothing_along(project: Path) -> None:
    new = project.rename(project.with_name("new"))
    with open_store(None, new) as store:
        assert bring_along(store, replace(job_in(new), command=("python", "other.py"))) is None
        assert bring_along(store, replace(job_in(new), name="other")) is None


def test_a_store_elsewhere_is_never_the_projects(project: Path, tmp_path: Path) -> None:
    shared = tmp_path / "team.db"
    shutil.copy(project / ".cotune" / "store.db", shared)
    new = project.rename(project.with_name("new"))
    with open_store(str(shared)) as store:
        assert bring_along(store, job_in(new)) is None
        assert len(store.samples(job_in(project))) == 1


def test_a_teams_database_is_never_a_projects(store: Store, project: Path) -> None:
    store.save(job_in(project), sample("a"))
    new = project.rename(project.with_name("new"))
    assert bring_along(store, job_in(new)) is None


def test_a_store_that_cannot_be_written_says_why_its_samples_stay(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = project.rename(project.with_name("new"))
    with open_store(None, new) as store:
        monkeypatch.setattr("cotune.store.moved.is_read_only", lambda _: True)  # root may write anything
        assert str(bring_along(store, job_in(new))).endswith("which stay there: it cannot be written")
        assert len(store.samples(job_in(project))) == 1


def test_samples_of_a_start_that_still_runs_stay(project: Path) -> None:
    with open_store(None, project) as store:
        store.save(job_in(project), sample("b", ended=False))
    new = project.rename(project.with_name("new"))
    with open_store(None, new) as store:
        assert str(bring_along(store, job_in(new))).endswith("which stay there: one of its starts still runs")
        assert len(store.samples(job_in(project))) == 2
