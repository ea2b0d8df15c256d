"""Real trainings as TrainJobs of the Kubeflow SDK's local-process backend; no API server is here to be tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cotune.errors import CotuneError, UsageError
from cotune.run.engines.kubeflow import Kubeflow
from cotune.run.launch import Ended
from cotune.testing.engines import EngineConformance, launch_of, played
from cotune.types import Cause

try:
    import kubeflow.trainer  # noqa: F401
except ImportError:
    _MISSING = "needs the Kubeflow SDK: pip install 'cotune[kubeflow]'"
else:
    _MISSING = ""

needs_sdk = pytest.mark.skipif(bool(_MISSING), reason=_MISSING)
_DIES = """
    import os, signal
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
"""


@needs_sdk
@pytest.mark.xdist_group("kubeflow")
class TestKubeflow(EngineConformance):
    """The local-process backend; every job of it makes an environment first."""

    @pytest.fixture
    def engine(self) -> Iterator[Kubeflow]:
        made = Kubeflow(backend="local", ask_seconds=0.5, term_seconds=1.0)
        yield made
        made.close()

    def test_a_task_that_is_killed_is_a_loss_and_not_the_job_s_fault(self, engine: Kubeflow, tmp_path: Path) -> None:
        ended = played(engine, launch_of(tmp_path, _DIES))[-1]
        assert isinstance(ended, Ended)
        assert ended.outcome == "failed"
        assert ended.failure is not None
        assert ended.failure.cause == Cause.OUTSIDE


def test_what_it_cannot_do_is_said_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="backend is kubernetes or local"):
        Kubeflow(backend="minikube")
    with pytest.raises(UsageError, match="no whole number of nodes"):
        Kubeflow(per_node=4).start(launch_of(tmp_path, "", workers=6))


@pytest.mark.skipif(not _MISSING, reason="the Kubeflow SDK is here")
def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(CotuneError, match=r"cotune\[kubeflow\]"):
        Kubeflow(backend="local").start(launch_of(tmp_path, ""))
