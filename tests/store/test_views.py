"""A store as the dashboard sees it: counts, pages and what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from records import JOB, OTHER, plan, sample

from cotune.errors import NotFound
from cotune.space import Axis, Space
from cotune.store import Store, views
from cotune.types import Cause, Cluster, Config, Device, Failure, Sample


def _filled(store: Store) -> list[Sample]:
    known = [
        sample("ok"),
        sample("out", failure=Failure("out of memory", Cause.MEMORY)),
        sample("cut", failure=Failure.interrupted("no budget")),
        sample("run", purpose="run", started="2026-02-01T10:00:00+00:00"),
        sample("live", purpose="run", ended=False),
    ]
    for one in known:
        store.save(JOB, one)
    return known


def test_a_job_is_summed_up_without_reading_its_samples(store: Store) -> None:
    known = _filled(store)
    store.save_plan(OTHER, plan())
    store.save_plan(JOB, plan())
    first, empty = views.job_summaries(store)
    assert (first.name, first.samples, first.configs, first.runs, first.failed, first.growing, first.plans) == (
        JOB.name, 5, 1, 2, 1, 1, 1,
    )  # fmt: skip
    assert first.device_seconds == pytest.approx(sum(one.device_seconds for one in known))
    assert first.last_started.startswith("2026-02-01")
    assert (empty.fingerprint, empty.samples, empty.last_started) == (OTHER.fingerprint, 0, "")


def test_pages_hold_every_sample_once_newest_first(store: Store) -> None:
    known = _filled(store)
    pages = [views.sample_page(store, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert {total for total, _ in pages} == {5}
    listed = [owned.sample for _, page in pages for owned in page]
    assert listed == [replace(one, curve=()) for one in reversed(known)]


def test_of_very_many_samples_one_of_each_config_comes_first_and_what_it_went_on_from(store: Store) -> None:
    def numbered(number: int, batch: int, **changes: Any) -> Sample:
        return replace(sample(f"n{number:03d}"), config=Config.data_parallel(batch, 1), **changes)

    for number in range(30):
        store.save(JOB, numbered(number, 8 << number % 3))
    store.save(JOB, numbered(30, 999, purpose="run"))
    store.save(JOB, numbered(31, 8, purpose="run", resumed_from="n000"))
    few = views.telling_samples(store, JOB, views.SampleLimits(per_config=2, per_batch=1, curves=9, most=4))
    assert {one.config.batch_size for one in few} == {8, 16, 32, 999}
    assert [one.id for one in few] == ["n000", "n028", "n029", "n030", "n031"], "oldest first, n000 for n031"
    more = views.telling_samples(store, JOB, views.SampleLimits(per_config=2, per_batch=1, curves=9, most=100))
    assert [one.id for one in more] == ["n000", "n025", "n026", "n027", "n028", "n029", "n030", "n031"]
    assert more[-1] == store.sample("n031"), "with its curve"


@pytest.mark.parametrize(
    ("state", "ids"), [("ok", {"ok", "run"}), ("failed", {"out"}), ("interrupted", {"cut"}), ("growing", {"live"})]
)
def test_every_sample_is_in_one_state(store: Store, state: views.State, ids: set[str]) -> None:
    _filled(store)
    total, page = views.sample_page(store, state=state, job=(JOB.name, JOB.fingerprint))
    assert {owned.sample.id for owned in page} == ids
    assert total == len(ids)
    assert views.sample_page(store, state=state, purpose="run")[0] == len(ids & {"run", "live"})


def test_what_grows_comes_with_its_curve(store: Store) -> None:
    known = _filled(store)
    (live,) = views.growing(store)
    assert live.sample == known[-1]
    assert live.name == JOB.name


def test_the_pulse_beats_when_something_is_added_or_ends(store: Store) -> None:
    beats = [views.pulse(store)]
    steps = (
        lambda: store.save(JOB, sample("live", ended=False)),
        lambda: store.save(JOB, sample("live", 3)),
        lambda: store.save_plan(JOB, plan()),
        lambda: store.save_result("place", "x", {}),
    )
    for step in steps:
        step()
        beats.append(views.pulse(store))
    assert len(set(beats)) == len(beats)
    assert views.pulse(store) == beats[-1]


def test_a_plan_remembers_what_it_was_chosen_from(store: Store) -> None:
    axes = (
        Axis("workers", (1, 2)),
        Axis("precision", ("bf16", "fp32")),
        Axis("momentum", (0.5, 1.0)),
        Axis("x", (True,)),
    )
    space = Space(axes, only=((0, 0, 0, 0), (1, 0, 1, 0)))
    cluster = Cluster((Device("t4", 8, 0.35, 4, "node"),), "EUR")
    store.save_plan(JOB, plan(), space, cluster)
    store.save_plan(JOB, plan())
    bare, full = store.plans(JOB)
    assert (bare.space, bare.cluster) == (None, None)
    assert (full.space, full.cluster) == (space, cluster)
    kinds = [type(value) for axis in (full.space or space).axes for value in axis.values]
    assert kinds == [int, int, str, str, float, float, bool]


def test_results_are_listed_without_and_read_with_their_documents(store: Store) -> None:
    document = {"stages": [{"units": 2}], "cost": float("inf"), "name": "<b>"}
    first = store.save_result("place", "net.json", document)
    second = store.save_result("simulate", "trace.csv", {})
    assert [(one.id, one.kind, one.name) for one in views.result_list(store)] == [
        (second, "simulate", "trace.csv"),
        (first, "place", "net.json"),
    ]
    assert store.result(first).document == document | {"cost": "inf"}
    with pytest.raises(NotFound, match="no result 'nothing'"):
        store.result("nothing")
