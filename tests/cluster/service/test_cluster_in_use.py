"""What a service knows of its cluster: types, nodes, who holds them, and what is lost and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.cluster.node_packing import OnNodes
from cotune.cluster.policy import Active, Submission, capacity, rigid_config
from cotune.cluster.service.cluster_in_use import ClusterInUse, EngineDevice, LostUnits
from cotune.cluster.service.device_types import SLOT, alike, on_cluster, served_cluster, types_of
from cotune.errors import Infeasible
from cotune.jobfile.settings import Settings, loads
from cotune.types import Cluster, Device

MIXED = Cluster((Device("fast", 4, per_node=2), Device("slow", 6, per_node=2)))


def settings(folder: Path, more: str = "") -> Settings:
    text = (
        f"name: a\nrun: python train.py {{batch_size}}\nexamples: 100\nepochs: 2\nsearch: {{workers: [1, 2]}}\n{more}"
    )
    return loads(text, {}, "cotune.yaml", folder)


def holding(cluster: ClusterInUse, number: int, units: int, kind: str) -> Active:
    active = Active(Submission(f"job-{number}", 0.0, units, 1.0), number, 1.0)
    active.config, active.held = rigid_config(units, 1, kind), units
    cluster.placer.take(active)
    return active


def test_a_number_has_units_alike_and_a_file_types_with_names(tmp_path: Path) -> None:
    assert served_cluster("4x2") == alike(8, 2)
    assert served_cluster("8") == alike(8)
    (tmp_path / "cluster.yaml").write_text("devices: {t4: {count: 8, per_node: 4}, a100: {count: 2}}\n")
    assert capacity(served_cluster(str(tmp_path / "cluster.yaml"))) == {"t4": 8, "a100": 2}


def test_a_job_gets_the_types_that_it_names_or_the_first(tmp_path: Path) -> None:
    assert types_of(settings(tmp_path, "devices: {slow: {}}"), MIXED) == ("slow",)
    assert types_of(settings(tmp_path, "devices: {slow: {}, a100: {}}"), MIXED) == ("slow",)
    assert types_of(settings(tmp_path, "devices: {slow: {}, fast: {}}"), MIXED) == ("slow", "fast")
    plain = on_cluster(settings(tmp_path), MIXED)
    assert [device.name for device in plain.cluster.devices] == ["fast"]
    assert next(axis.values for axis in plain.space.axes if axis.name == "device") == ("fast",)
    assert types_of(settings(tmp_path, "devices: {a100: {}}"), alike(4)) == (SLOT,)
    with pytest.raises(Infeasible, match="it asks for a100, the service has fast, slow"):
        on_cluster(settings(tmp_path, "devices: {a100: {}}"), MIXED)
    with pytest.raises(Infeasible, match="at least 1 workers, the service has 0"):
        on_cluster(settings(tmp_path), alike(0))


def test_who_holds_what_is_told_by_type_and_node() -> None:
    cluster = ClusterInUse(MIXED)
    wide, narrow = holding(cluster, 0, 3, "slow"), holding(cluster, 1, 1, "fast")
    fast, slow = cluster.document([wide, narrow], [("job-2", "fast", 2)])
    assert (fast["held"], slow["held"], slow["lost"]) == (3, 3, 0)
    assert fast["measuring"] == [{"job": "job-2", "units": 2}]
    assert sum(one["units"] for node in slow["nodes"] for one in node["jobs"] if one["job"] == "job-0") == 3
    assert [node["units"] for node in slow["nodes"]] == [2, 2, 2]


def test_a_lost_node_is_given_to_nobody_until_it_is_back() -> None:
    cluster = ClusterInUse(MIXED)
    witness = holding(cluster, 0, 2, "slow")
    assert isinstance(cluster.placer, OnNodes)
    ((stood, _),) = cluster.placer.held(witness)
    there = 4
    lost = LostUnits(cluster, lambda _: there, lambda _kind, _engine: 0)
    assert lost.noticed_by(witness, EngineDevice("ray", {}, "slow"))
    assert capacity(cluster.present) == {"fast": 4, "slow": 4}
    cluster.placer.release(witness)
    others = [holding(cluster, number, 2, "slow") for number in (1, 2)]
    assert stood not in {node for one in others for node, _ in cluster.placer.held(one)}
    (_, slow) = cluster.document(others, [])
    assert (slow["lost"], [node["node"] for node in slow["nodes"] if node["lost"]]) == (2, [stood])
    assert not lost.noticed_by(others[0], EngineDevice("ray", {}, "slow")), "it is known already"
    there, lost._looked = 6, float("-inf")
    assert lost.came_back()
    assert cluster.present == MIXED
    assert cluster.placer.held(holding(cluster, 3, 2, "slow")) == [(stood, 2)]


def test_without_nodes_units_are_lost_by_number() -> None:
    cluster = ClusterInUse(alike(6))
    assert cluster.has(SLOT, 4, holding(cluster, 0, 2, SLOT))
    assert (cluster.units, cluster.has(SLOT, 9), cluster.units) == (4, True, 6)
