"""What an operator asks of a simulation: what if more jobs came, who got what, what if nodes fail."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.test_cli_simulate import simulated
from cotune.cli.app import app
from cotune.cluster.policies.orders import Fifo
from cotune.cluster.policy import Submission
from cotune.cluster.simulate import simulate
from cotune.cluster.simulate.clusters import parse_cluster
from cotune.cluster.simulate.failures import Failures
from cotune.errors import UsageError

TRACE = """job_id,submit_s,gpus,duration_s,deadline_s,team,department
long,0,4,100,400,red,a
wide,100,8,10,160,red,b
short,200,1,50,300,blue,a
late,300,8,10,500,blue,b
"""
SACCT = """JobID|Submit|AllocTRES|ElapsedRaw|Account|User
1|2020-03-01T00:00:00|gres/gpu=2|600|vision|ada
2|2020-03-02T00:00:00|gres/gpu=1|600|vision|bob
3|2020-03-03T00:00:00|gres/gpu=4|600|text|ada
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE.replace(",department", "").replace(",a\n", "\n").replace(",b\n", "\n"))
    return path


def crowd(tmp_path: Path) -> Path:
    path = tmp_path / "crowd.csv"
    lines = (f"job-{place},{place},1,100,{place + 150}" for place in range(40))
    path.write_text("job_id,submit_s,gpus,duration_s,deadline_s\n" + "\n".join(lines) + "\n")
    return path


def test_load_brings_the_same_jobs_sooner(trace: Path) -> None:
    plain, loaded = (simulated(trace, "--cluster", 8, "--load", load)["results"]["fifo"] for load in (1, 2))
    assert loaded["makespan"] < plain["makespan"]
    assert loaded["gpu_hours"] == plain["gpu_hours"]
    assert loaded["deadlines"]["asked"] == plain["deadlines"]["asked"]


def test_a_window_takes_the_jobs_submitted_in_it(trace: Path, tmp_path: Path) -> None:
    assert simulated(trace, "--cluster", 8, "--window", "100..300")["jobs"] == 2
    assert simulated(trace, "--cluster", 8, "--window", "200..")["jobs"] == 2
    dated = tmp_path / "sacct.txt"
    dated.write_text(SACCT)
    assert simulated(dated, "--cluster", 8, "--window", "2020-03-02..2020-03-03")["jobs"] == 1


def test_teams_come_from_any_column(trace: Path, tmp_path: Path) -> None:
    teams = simulated(trace, "--cluster", 8, "--per-team")["results"]["fifo"]["teams"]
    assert {name: one["jobs"] for name, one in teams.items()} == {"red": 2, "blue": 2}
    assert sum(one["gpu_hours_share"] for one in teams.values()) == pytest.approx(1.0)
    whole = tmp_path / "departments.csv"
    whole.write_text(TRACE)
    found = simulated(whole, "--cluster", 8, "--per-team", "--team-column", "department")
    assert set(found["results"]["fifo"]["teams"]) == {"a", "b"}
    slurm = tmp_path / "sacct.txt"
    slurm.write_text(SACCT)
    found = simulated(slurm, "--cluster", 8, "--per-team", "--team-column", "User")
    assert set(found["results"]["fifo"]["teams"]) == {"ada", "bob"}


def test_each_job_has_a_line(trace: Path, tmp_path: Path) -> None:
    lines = tmp_path / "jobs.csv"
    simulated(trace, "--cluster", 8, "--policy", "fifo,edf", "--per-job", lines)
    with lines.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    first = rows[0]
    assert (first["policy"], first["job_id"], first["end_s"], first["met"]) == ("fifo", "long", "100", "1")


def test_a_faster_device_takes_less_time(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job_id,submit_s,gpus,duration_s,device\na,0,2,100,\nb,0,2,100,\nc,0,2,100,t4\n")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("devices: {v100: {count: 2, speed: 2.0}, t4: {count: 4, speed: 0.5}}\n")
    for policy in ("fifo", "srtf", "gavel(interval=1)", "joint", "backfill"):
        lines = tmp_path / f"{policy[:4]}.csv"
        simulated(jobs, "--cluster", cluster, "--policy", policy, "--per-job", lines)
        with lines.open() as file:
            ends = {row["job_id"]: float(row["end_s"]) for row in csv.DictReader(file)}
        assert ends["c"] == pytest.approx(100.0), policy  # recorded on a T4
        assert min(ends["a"], ends["b"]) == pytest.approx(50.0), policy
    with pytest.raises(UsageError, match="one kind of device"):
        simulated(jobs, "--cluster", cluster, "--policy", "elasticflow")


def test_a_node_that_fails_stops_its_jobs_and_loses_what_was_not_saved() -> None:
    jobs = [Submission(str(place), 0.0, 4, 1000.0) for place in range(4)]
    cluster = parse_cluster("4x4")
    calm = simulate(jobs, cluster, Fifo())
    failing = Failures(mtbf=2000.0, repair=100.0, checkpoint=300.0)
    first, again = (simulate(jobs, cluster, Fifo(), failures=failing, seed=3) for _ in range(2))
    assert calm.failures is None
    assert first.failures is not None
    assert first.failures["nodes_failed"] > 0
    assert first.finished.all()
    assert first.end.tolist() == again.end.tolist()
    # what was held is the work itself and what was lost of it
    assert first.service.sum() == pytest.approx(calm.service.sum() + first.failures["lost_gpu_seconds"])
    saved = simulate(jobs, cluster, Fifo(), failures=Failures(2000.0, 100.0, 1e-3), seed=3)
    assert saved.end.max() <= first.end.max()


@pytest.mark.parametrize("policy", ["joint", "elasticflow", "gavel", "goodput", "optimus", "las", "drf", "backfill"])
def test_every_kind_of_policy_lives_with_failures(policy: str, tmp_path: Path) -> None:
    lines = (f"job-{place},{place * 7},{2 ** (place % 4)},{20 + place},{place * 7 + 900}" for place in range(30))
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,gpus,duration_s,deadline_s\n" + "\n".join(lines) + "\n")
    flags = ("--cluster", "2x4", "--failures", "mtbf=100s,repair=40s", "--restart", 2, "--policy", policy)
    found = simulated(path, *flags)["results"][policy]
    assert found["failures"]["nodes_failed"] > 0
    assert found["unfinished"] == 0


def test_noise_is_compared_over_the_same_jobs(tmp_path: Path) -> None:
    path = crowd(tmp_path)
    found = simulated(path, "--cluster", 8, "--policy", "elasticflow,fifo", "--noise", 0.3)
    assert found["results"]["elasticflow"]["declined"] > 0
    same = found["common"]["0.3"]
    assert same["jobs"] < found["jobs"]
    assert same["jct_mean"]["fifo"] != found["noise"]["0.3"]["fifo"]["jct_mean"]
    shown = CliRunner().invoke(
        app, ["simulate", str(path), "--cluster", "8", "--policy", "elasticflow,fifo", "--noise", "0.3"]
    )
    assert f"the {same['jobs']} jobs that ended under all" in shown.stdout
