"""Jobs handed in to be served: what is believed of them, and what they go on from."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from cotune.checkpoints import CHECKPOINT
from cotune.cluster.arrivals import Intake, Stores, settings_of
from cotune.errors import Infeasible, NotFound
from cotune.store import open_store
from cotune.types import Config, Failure, Sample

JOB = """
name: twice
examples: 960
run: python train.py {batch_size} {epochs}
epochs: 4
search: {workers: [1, 2], batch_size: [16, 48]}
"""


def test_a_job_handed_in_twice_goes_on_from_a_run_cut_short_once(tmp_path: Path) -> None:
    (tmp_path / "cotune.yaml").write_text(JOB)
    settings = settings_of(tmp_path, None)
    left = tmp_path / ".cotune" / "runs" / "run"
    (left / CHECKPOINT).mkdir(parents=True)
    (left / CHECKPOINT / "weights").write_text("kept")
    device = settings.cluster.devices[0].name
    url = str(tmp_path / "store.db")
    with open_store(url) as store, Stores(url) as stores:
        for number, (batch, workers) in enumerate([(16, 1), (48, 1), (16, 2)]):
            config = Config.data_parallel(batch, workers, device)
            store.save(settings.job, Sample(config, 2.0, 10.0 / workers, seconds=20.0, id=f"probe{number}"))
        config = Config.data_parallel(16, 1, device)
        cut = Sample(
            config, 2.0, 10.0, purpose="run", id="cut", failure=Failure.interrupted("Ctrl-C"), folder=str(left)
        )
        store.save(settings.job, cut)
        arrived = Intake(stores, [settings, settings], None, engine=None, slots=2, seed=0).arrivals(0.0)
    assert arrived is not None
    assert [job.id for job in arrived] == ["twice", "twice'"]
    assert [[start.id for start in job.earlier] for job in arrived] == [["cut"], []]


def test_each_job_is_believed_by_the_store_of_its_own_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTUNE_STORE", raising=False)
    first = []
    for name in ("one", "other"):
        (tmp_path / name / ".cotune").mkdir(parents=True)
        (tmp_path / name / "cotune.yaml").write_text(JOB.replace("twice", name))
        first.append(settings_of(tmp_path / name, None))
    device = first[0].cluster.devices[0].name
    with open_store(start=tmp_path / "one") as store:
        for batch in (16, 48):
            probe = Sample(Config.data_parallel(batch, 1, device), 2.0, 10.0, seconds=20.0, id=f"probe{batch}")
            store.save(first[0].job, probe)
    with Stores(None) as stores:
        assert Intake(stores, first[:1], None, engine=None, slots=2, seed=0).arrivals(0.0)
        with pytest.raises(NotFound, match=f"no samples of job 'other' in {tmp_path / 'other' / '.cotune'}"):
            Intake(stores, first, None, engine=None, slots=2, seed=0).arrivals(0.0)


def test_a_goal_that_cannot_be_met_is_declined_and_the_others_are_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, deadline in (("calm", "1h"), ("hasty", "1s")):
        (tmp_path / f"{name}.yaml").write_text(JOB.replace("twice", name) + f"deadline: {deadline}\n")
    first = [settings_of(tmp_path / f"{name}.yaml", None) for name in ("calm", "hasty")]
    device, url = first[0].cluster.devices[0].name, str(tmp_path / "store.db")
    with open_store(url) as store, Stores(url) as stores:
        for settings, batch in itertools.product(first, (16, 48)):
            config = Config.data_parallel(batch, 1, device)
            store.save(settings.job, Sample(config, 2.0, 10.0, seconds=20.0, id=f"{settings.job.name}{batch}"))
        intake = Intake(stores, first, None, engine=None, slots=2, seed=0)
        assert [job.id for job in intake.arrivals(0.0) or ()] == ["calm"]
        assert [one["job"] for one in intake.declined] == ["hasty"]
        assert "declined hasty: no config" in capsys.readouterr().err
        with pytest.raises(Infeasible):
            Intake(stores, first[1:], None, engine=None, slots=2, seed=0).arrivals(0.0)


def test_a_file_that_could_not_be_read_is_taken_once_it_is_whole(tmp_path: Path) -> None:
    queue, url = tmp_path / "queue", str(tmp_path / "store.db")
    queue.mkdir()
    (queue / "a.yaml").write_text(JOB)
    with open_store(url) as store, Stores(url) as stores:
        settings = settings_of(queue / "a.yaml", None)
        device = settings.cluster.devices[0].name
        for batch in (16, 48):
            probe = Sample(Config.data_parallel(batch, 1, device), 2.0, 10.0, seconds=20.0, id=f"probe{batch}")
            store.save(settings.job, probe)
        intake = Intake(stores, [], queue, engine=None, slots=2, seed=0)
        half = queue / "b.yaml"
        half.write_text(JOB[:30])
        os.utime(half, (1, 1))
        assert [job.id for job in intake.arrivals(0.0) or ()] == ["twice"]
        assert [one["job"] for one in intake.declined] == ["b.yaml"]
        assert intake.arrivals(1.0) == []
        half.write_text(JOB)
        assert [job.id for job in intake.arrivals(2.0) or ()] == ["twice'"]
    assert intake.declined == []
