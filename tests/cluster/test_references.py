"""Published and agreed results on real traces, digit by digit where simulators agree."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cotune.cluster.policies.las import Las
from cotune.cluster.policies.optimus import Optimus
from cotune.cluster.policies.orders import Fifo, Smallest, Srsf, Srtf
from cotune.cluster.policy import Policy
from cotune.cluster.simulate import simulate
from cotune.cluster.simulate.clusters import parse_cluster
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.traces import read

DATA = Path(os.environ.get("COTUNE_DATA", ""))
pytestmark = pytest.mark.skipif("COTUNE_DATA" not in os.environ, reason="needs COTUNE_DATA")

# (cluster, GPUs) -> mean, p50, p99 and makespan in seconds
ITP: dict[tuple[str, str], dict[type, tuple[float, float, float, float]]] = {
    ("10", "16"): {
        Fifo: (71_091.5, 65_070, 237_046, 2_969_377),
        Srtf: (50_044.3, 17_806, 319_551, 3_008_192),
        Srsf: (49_126.2, 17_806, 308_877, 2_982_740),
        Smallest: (56_354.0, 38_361, 291_964, 2_955_376),
    },
    ("05", "12"): {
        Fifo: (549_335.4, 533_716, 1_190_342, 5_628_049),
        Srtf: (131_930.4, 29_407, 1_518_446, 5_424_159),
        Srsf: (124_003.5, 29_063, 1_429_032, 5_620_010),
        Smallest: (263_222.2, 215_260, 1_460_221, 5_647_960),
    },
    ("02", "104"): {
        Fifo: (342_503.0, 455_455, 703_914, 5_796_793),
        Srtf: (27_885.8, 6_207, 272_472, 6_070_482),
        Srsf: (26_673.2, 6_209, 297_856, 6_214_202),
        Smallest: (31_228.9, 7_324, 376_726, 6_227_979),
    },
}


@pytest.mark.parametrize(("cluster", "gpus"), ITP)
def test_the_simple_orders_agree_with_two_other_simulators_on_every_digit(cluster: str, gpus: str) -> None:
    trace = read(DATA / "itp" / "jobs.csv.gz", {"cluster": cluster})
    for policy, expected in ITP[cluster, gpus].items():
        found = metrics(simulate(trace.jobs, parse_cluster(gpus), policy()))
        assert (round(found["jct_mean"], 1), found["jct_p50"], found["jct_p99"], found["makespan"]) == expected
        assert found["unfinished"] == 0


@pytest.mark.parametrize(
    ("cluster", "gpus", "policy", "mean", "within"),
    [
        ("02", "104", Las(), 33_497.8, 0.02),
        ("05", "12", Las(), 348_308.8, 0.02),
        ("02", "104", Las(variant="paper", thresholds=(3250, 7200)), 125_360.6, 1e-6),
        ("05", "12", Las(variant="paper", thresholds=(3250, 7200)), 425_479.1, 1e-6),
    ],
)
def test_las_is_the_tiresias_it_says_it_is(cluster: str, gpus: str, policy: Policy, mean: float, within: float) -> None:
    trace = read(DATA / "itp" / "jobs.csv.gz", {"cluster": cluster})
    assert metrics(simulate(trace.jobs, parse_cluster(gpus), policy))["jct_mean"] == pytest.approx(mean, rel=within)


@pytest.mark.parametrize(
    ("workload", "policy", "mean", "within"),
    [
        (6, Las(variant="pollux"), 3_706.0222, 1e-5),
        (1, Las(variant="pollux"), 3_604.85, 1e-5),
        (6, Optimus(interval=60.0, whole_epochs=True), 5_833.7778, 0.01),
        (1, Optimus(interval=60.0, whole_epochs=True), 5_315.325, 0.01),
    ],
)
def test_the_baselines_of_pollux_take_as_long_as_in_its_simulator(
    workload: int, policy: Policy, mean: float, within: float
) -> None:
    trace = read(DATA / "pollux" / "workloads" / f"workload-{workload}.csv")
    played = simulate(trace.jobs, parse_cluster("16x4"), policy, placement="emptiest", restart=30.0)
    assert metrics(played)["jct_mean"] == pytest.approx(mean, rel=within)


def test_jobs_that_never_queue_take_what_tiresias_says_under_any_order() -> None:
    trace = read(DATA / "tiresias" / "jobs60.csv.gz")
    for policy in (Fifo(), Srtf(), Las()):
        found = simulate(trace.jobs, parse_cluster("32x4"), policy)
        submit = np.array([job.submit for job in found.jobs])
        assert (found.end - submit).mean() == pytest.approx(178.417, abs=5e-4)
        assert found.end.max() == 3271
