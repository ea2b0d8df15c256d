"""What a store promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import math
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from records import CONFIG, JOB, OTHER, curve, plan, sample, samples
from sqlalchemy import event, select

from cotune.errors import NotFound, UsageError
from cotune.identity import new_id
from cotune.safety import redact
from cotune.store import Store, open_store, schema, writer
from cotune.types import Cause, Config, Evaluation, Failure, Sample, Terms


def _types(values: Sample) -> list[type]:
    return [type(value) for _, value in values.config.axes]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=samples)
def test_what_is_saved_is_what_is_read(store: Store, given: Sample) -> None:
    given = replace(given, id=new_id())
    store.save(JOB, given)
    read = store.sample(given.id)
    failure = given.failure and replace(given.failure, words=redact.text(given.failure.words))
    warning = given.warning and redact.text(given.warning)
    assert read == replace(given, failure=failure, warning=warning)
    assert _types(read) == _types(given)


def test_a_reopened_store_has_everything(url: str) -> None:
    with open_store(url) as first:
        first.save(JOB, sample("a"))
        first.save_plan(JOB, plan())
    with open_store(url) as second:
        assert second.samples(JOB) == (sample("a"),)
        assert second.latest_plan(JOB) == plan()


def test_saving_again_changes_the_sample_and_adds_only_new_evaluations(store: Store) -> None:
    inserted: list[int] = []

    def count(_: object, clause: object, rows: list[object], *rest: object) -> None:
        if getattr(clause, "table", None) is schema.evaluations:
            inserted.append(len(rows) or 1)

    event.listen(store._engine, "before_execute", count)
    for epochs in (0, 1, 1, 2, 5):
        store.save(JOB, sample("a", epochs, ended=False))
    store.save(JOB, sample("a", 5, ended=True))
    assert store.samples(JOB) == (sample("a", 5),)
    assert inserted == [1, 1, 3]


def test_samples_come_oldest_first_by_job_and_purpose(store: Store) -> None:
    probe, run = sample("b"), sample("a", purpose="run")
    store.save(JOB, probe)
    store.save(JOB, run)
    store.save(OTHER, sample("c"))
    store.save(JOB, probe)
    assert store.samples(JOB) == (probe, run)
    assert store.samples(JOB, purpose="run") == (run,)
    assert store.samples() == (probe, run, sample("c"))
    assert store.others(JOB) == 1
    assert store.others(OTHER) == 2


def test_a_sample_belongs_to_one_job(store: Store) -> None:
    store.save(JOB, sample("a"))
    with pytest.raises(ValueError, match="another job"):
        store.save(OTHER, sample("a", 9))
    assert store.samples() == (sample("a"),)
    with pytest.raises(ValueError, match="needs an id"):
        store.save(JOB, sample(""))


def test_a_sample_is_found_by_the_first_letters_of_its_id(store: Store) -> None:
    for id in ("abc", "abd", "a%c", "ab"):
        store.save(JOB, sample(id))
    assert store.sample("abc").id == "abc"
    assert store.sample("a%").id == "a%c"
    assert store.sample("ab").id == "ab"
    with pytest.raises(UsageError, match="4 samples start with 'a': abc, abd, a%c, ab; give more"):
        store.sample("a")
    with pytest.raises(NotFound, match="starts with 'x'"):
        store.sample("x")
    with pytest.raises(UsageError):
        store.sample("")


def test_jobs_are_known_by_name_and_fingerprint_with_their_secrets_masked(store: Store, url: str) -> None:
    secret = replace(JOB, command=(*JOB.command, "--token", "hunter3"), env=(("HF_TOKEN", "hunter3"),))
    store.save_plan(JOB, plan())
    store.save_plan(JOB, plan())
    store.save(secret, sample("a"))
    known = store.jobs()
    assert [(job.name, job.fingerprint, job.samples) for job in known] == [
        (JOB.name, JOB.fingerprint, 0),
        (JOB.name, secret.fingerprint, 1),
    ]
    assert [job.definition for job in known] == [JOB, redact.job(secret)]
    assert store.samples(known[1]) == store.samples(secret) == (sample("a"),)
    with store._engine.connect() as connection:
        assert "hunter3" not in str(connection.execute(select(schema.jobs)).all())


def test_plans_come_newest_first(store: Store) -> None:
    assert store.latest_plan(JOB) is None
    ids = [store.save_plan(JOB, plan(seconds)) for seconds in (1.0, 2.0, 3.0)]
    store.save_plan(OTHER, plan(4.0))
    assert [stored.id for stored in store.plans(JOB)] == ids[::-1]
    assert store.latest_plan(JOB) == plan(3.0)
    assert len(store.plans()) == 4
    assert store.plans(JOB, last=1)[0].job == JOB.name


def test_numbers_that_are_not_finite_are_unknown_or_refused(store: Store) -> None:
    diverged = (Evaluation(1, math.nan, 1.0, (("loss", math.inf), ("norm", 2.0))), Evaluation(2, 0.5, 2.0))
    odd = sample("a", curve=diverged, accuracy=math.nan, epoch_seconds=math.inf, terms=Terms(compute=math.nan, input=1))
    store.save(JOB, odd)
    read = store.sample("a")
    assert (read.accuracy, read.epoch_seconds, read.terms) == (None, None, Terms(input=1.0))
    assert math.isnan(read.curve[0].accuracy)
    assert math.isnan(dict(read.curve[0].metrics)["loss"])
    assert dict(read.curve[0].metrics)["norm"] == 2.0
    assert read.curve[1] == diverged[1]
    for broken in (
        sample("b", seconds=math.nan),
        sample("b", epochs=0, config=replace(CONFIG, axes=(("momentum", math.inf),))),
        sample("b", curve=(Evaluation(math.nan, 0.5, 1.0),)),
    ):
        with pytest.raises(ValueError, match="finite"):
            store.save(JOB, broken)
    assert [kept.id for kept in store.samples()] == ["a"]


def test_the_last_words_of_a_program_may_hold_anything(store: Store) -> None:
    store.save(JOB, sample("a", failure=Failure("crash: \0 \udcff --token hunter2")))
    assert store.sample("a").failure == Failure("crash: \N{REPLACEMENT CHARACTER} ? --token ***")


def test_a_run_can_be_taken_up_again_once(store: Store) -> None:
    run = sample("done", purpose="run")
    store.save(JOB, run)
    store.save(JOB, replace(run, id="cut", failure=Failure.interrupted("Ctrl-C")))
    store.save(JOB, replace(run, id="crash", failure=Failure("rank 1 exited with 1")))
    store.save(JOB, replace(run, id="growing", ended=False))
    store.save(JOB, replace(run, id="probe", purpose="probe", failure=Failure("out of memory", Cause.MEMORY)))
    assert [unfinished.id for unfinished in store.unfinished_runs(JOB)] == ["crash", "cut"]
    store.save(JOB, replace(run, id="second", resumed_from="crash"))
    assert [unfinished.id for unfinished in store.unfinished_runs(JOB)] == ["cut"]
    assert store.unfinished_runs(OTHER) == ()


def test_a_config_fails_by_its_own_fault_only() -> None:
    first, second, third = (Config.data_parallel(batch, 1) for batch in (1, 2, 3))
    history = [
        Sample(first, failure=Failure("out of memory", Cause.MEMORY)),
        Sample(first, failure=Failure.interrupted("by the user")),
        Sample(second, failure=Failure.interrupted("Ctrl-C")),
        Sample(third, failure=Failure("time-out")),
        Sample(third),
    ]
    assert [each.failure is not None and not each.failed for each in history] == [False, True, True, False, False]


def _write(url: str, name: str, count: int) -> None:
    with open_store(url) as store:
        for number in range(count):
            store.save(JOB, sample(f"{name}{number}", 1))
        store.save(JOB, sample(f"{name}-open", 3, ended=False))


def test_processes_open_a_new_store_and_write_it_at_the_same_time(url: str) -> None:
    fresh = multiprocessing.get_context("spawn")
    writers = [fresh.Process(target=_write, args=(url, name, 40)) for name in "abc"]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0, 0, 0]
    with open_store(url) as store:
        whole = store.samples(JOB)
        assert sorted(one.id for one in whole if not one.id.endswith("open")) == sorted(
            f"{name}{number}" for name in "abc" for number in range(40)
        )
        left = [one for one in whole if one.id.endswith("open")]
        assert all(one.ended and one.failure and not one.failed and one.curve == curve(3) for one in left)
        assert len(left) == 3


def test_only_a_writer_known_to_be_dead_is_gone(store: Store) -> None:
    mine = writer.me()
    assert mine is not None
    host, boot, space, pid, tick = mine.split("/")
    assert not writer.gone(mine)
    assert writer.gone(f"{host}/{boot}/{space}/{pid}/1{tick}")
    assert writer.gone(f"{host}/another-boot/{space}/{pid}/{tick}")
    assert not writer.gone(f"elsewhere/another-boot/{space}/{pid}/1")
    assert not writer.gone(f"{host}/{boot}/another-container/{pid}/1")
    store.save(JOB, sample("a", ended=False))
    assert store.close_orphans() == ()
    assert not store.sample("a").ended


def test_the_nearest_project_folder_holds_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTUNE_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    deep = tmp_path / "project" / "src" / "deep"
    deep.mkdir(parents=True)
    with open_store(None, deep) as outside:
        assert outside.label == str(tmp_path / "data" / "cotune" / "store.db")
    (tmp_path / "project" / ".cotune").mkdir()
    with open_store(None, deep) as project:
        assert project.label == str(tmp_path / "project" / ".cotune" / "store.db")
    monkeypatch.setenv("COTUNE_STORE", str(tmp_path / "named.db"))
    with open_store(None, deep) as named:
        assert named.label == str(tmp_path / "named.db")
    with open_store(":memory:", deep) as memory:
        memory.save(JOB, sample("a"))
        assert memory.samples() == (sample("a"),)
