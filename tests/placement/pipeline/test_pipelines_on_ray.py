"""A pipeline on a real Ray cluster: nodes of three kinds, of which one is lost."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cotune.placement.elastic import trained
from cotune.placement.profiles import TypeEntry
from cotune.placement.staged import TRAIN, Staged, engines
from cotune.run.engines.ray import Ray
from cotune.types import Stage
from piped import WATCHED, Piped, watched_in

pytest.importorskip("ray", reason="needs Ray: pip install 'cotune[ray]'")
pytestmark = pytest.mark.xdist_group("ray")
KINDS = {name: TypeEntry(name=name, price_per_hour=0.0, device="cpu") for name in ("big", "small", "tiny")}


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    from cotune.run.ray.cluster import keep_token_in_memory

    keep_token_in_memory()
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_worker_niceness", "0")  # not 15: beside other tests workers would wait for a core
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "resources": {"big": 1}})
        made.add_node(num_cpus=1, resources={"tiny": 1})
        made.add_node(num_cpus=1, resources={"small": 1})
        yield made
        made.shutdown()


def test_three_machines_learn_as_one_process_and_go_on_without_the_one_that_is_lost(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipe: Callable[..., Piped]
) -> None:
    watched_in(tmp_path, monkeypatch)
    alone = pipe([("cpu", 1, 0, 4)], *WATCHED).losses
    doomed = cluster.add_node(num_cpus=1, resources={"small": 1})
    (tmp_path / "deed").write_text("lose the node")

    def lose() -> None:
        while not (tmp_path / "reached").exists():
            time.sleep(0.05)
        (tmp_path / "deed").unlink()
        cluster.remove_node(doomed, allow_graceful=False)

    losing = threading.Thread(target=lose, daemon=True)
    losing.start()
    staged = Staged((Stage("big", 1, 0, 0), Stage("small", 2, 1, 2), Stage("tiny", 1, 3, 4)), KINDS, table_servers=1)
    told: list[str] = []
    with engines(Ray(address=cluster.address, patience=200.0, term_seconds=1.0)) as there:
        command = (*TRAIN, *WATCHED, "--checkpoint-every", "4")
        found = trained(there, staged, command, tmp_path / "run", tell=told.append)
    losing.join()
    assert found.starts == 2
    assert "going on after 8 batches with 1 big (0..0) | 1 small (1..2) | 1 tiny (3..4) and 1 for tables" in told[0]
    assert found.result["losses"] == pytest.approx(alone, rel=1e-4)
