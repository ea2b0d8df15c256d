"""What the service has planned for a job is what it tells of it, wherever it is shown."""

from __future__ import annotations

import pytest

from cotune.cluster.service.device_types import alike
from cotune.cluster.service.documents import status_document, why_document
from cotune.cluster.service.leadership import Leadership
from cotune.cluster.service.planned_job import PlannedJob
from cotune.cluster.service.preparation_process import Preparation
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import State
from cotune.types import Config, Sample, Terms
from cotune.units import duration


def test_a_job_has_one_forecast_in_why_and_status_and_it_is_of_an_engine_that_is_up(
    queue: Queue, snapshot: JobSnapshot
) -> None:
    for place, engine in enumerate((10.0, 0.1, 0.1)):
        config, terms = Config.data_parallel(16 * 2**place, 1), Terms(engine=engine, startup=0.1)
        sample = Sample(config, 1.0, 2.0 / 2**place, terms=terms, seconds=12.0, id=f"probe {place}", ended=True)
        queue.store.save(snapshot.settings().job, sample)
    id, leader = queue.submit(snapshot), Leadership(queue.store, {})
    assert leader.take()
    led = Queue(queue.store, leader.term)
    led.become(id, State.PROFILING, "measured")
    Preparation(led, led.get(id), snapshot.settings(), alike(1), 0).run()

    job = queue.get(id)
    assert job.state is State.WAITING, job.reason
    assert job.belief is not None
    seconds, planned = status_document(job, queue.now())["forecast"]["forecast"]["seconds"], PlannedJob.of(job.belief)
    assert planned.interval == pytest.approx((seconds["low"], seconds["mid"], seconds["high"]))
    assert seconds["mid"] == pytest.approx(planned.seconds[planned.wants])
    assert f"{duration(seconds['mid'])} forecast" in why_document(queue, job)["reason"]
    assert seconds["high"] < 10.0, "its engine is up"
