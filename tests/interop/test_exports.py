"""Plans as other launchers' files, each tried by the launcher itself."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.jobs import cotune, environment
from cotune.errors import UsageError
from cotune.interop.export import LaunchOrder, going_on, names, order, use, write
from cotune.run.launch import Launch
from cotune.types import Cluster, Config, Device, Job
from interop import environments
from interop.plans import EXAMPLES, JOB, planned
from slurm_daemons import daemons, missing
from torchrun import finished

TRAINED = re.compile(r"^epoch 1 accuracy 0\.\d+$", re.MULTILINE)
# Workers that meet by what the launcher tells them, without torch: importing it takes most of a test's time.
MEET = """\
import os, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert int(os.environ["LOCAL_RANK"]) < int(os.environ["LOCAL_WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1)
if rank == 0:
    with socket.create_server(("", place[1])) as server:
        ranks = sorted(int(server.accept()[0].recv(9)) for _ in range(size - 1))
    print("met", ranks, "batch", sys.argv[1], flush=True)
for _ in range(600 if rank else 0):
    try:
        with socket.create_connection(place) as peer:
            peer.send(str(rank).encode())
        break
    except OSError:
        time.sleep(0.1)
"""
MEETING = "name: Meet\nrun: python meet.py {batch_size}\n"
A100 = "devices: {a100: {per_node: 4, price_per_hour: 2.0}}\n"


def exported(folder: Path, target: str, file: str, *flags: str) -> Path:
    done = cotune(folder, "export", target, "-o", file, *flags)
    assert done.code == 0, done.err
    assert use(target, file) in done.err
    return folder / file


def start(command: list[str], folder: Path, **more: str) -> str:
    return finished(command, {**environment(folder), "OMP_NUM_THREADS": "1", **more}, folder)


def launch(job: Job, config: Config, epochs: int = 1, **more: float) -> Launch:
    return Launch("export", job, config, epochs, Path(job.folder), **more)  # type: ignore[arg-type]


def gpu_order() -> LaunchOrder:
    cluster = Cluster((Device("A100", per_node=4, price_per_hour=2.0),))
    job = Job("Big Job", ("python", "-m", "package.train", "{batch_size}"), env=(("API_KEY", "s3cret"), ("A", "1 2")))
    return order(launch(job, Config.data_parallel(16, 8, "A100"), 3, seconds_limit=3660.0), cluster)


def test_torchrun_trains_what_was_planned(tmp_path: Path) -> None:
    file = exported(planned(tmp_path), "torchrun", "run.sh")
    assert "--batch-size 32 --epochs 1" in file.read_text()
    assert len(TRAINED.findall(start(["sh", "run.sh"], tmp_path))) == 1


def test_a_job_in_tokens_is_exported_in_tokens(tmp_path: Path) -> None:
    text = MEETING + "length: 51200 tokens\nsequence: 16\n"
    (tmp_path / "meet.py").write_text(MEET)
    file = exported(planned(tmp_path, text), "torchrun", "run.sh")
    first = file.read_text().splitlines()
    assert any("tokens" in line for line in first[:4]), first[:4]
    assert not any("epoch" in line for line in first if line.startswith("#")), first


@pytest.mark.xdist_group("slurm")
@pytest.mark.skipif(bool(missing()), reason=f"needs Slurm ({', '.join(missing())}): apt-get install slurm-wlm munge")
def test_slurm_takes_and_runs_the_batch_script(tmp_path: Path) -> None:
    (tmp_path / "meet.py").write_text(MEET)
    file = exported(planned(tmp_path, MEETING), "slurm", "run.sbatch")
    assert "#SBATCH --time=6\n" in file.read_text(), "half as much again as 200 s, and a minute"
    with daemons() as found:
        env = {**environment(tmp_path), **found}
        env["PATH"] = f"{Path(sys.executable).parent}:{found['PATH']}"
        command = ["sbatch", "--parsable", "run.sbatch"]
        number = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
        shown = ["scontrol", "show", "job", number.strip()]
        until = time.monotonic() + 100
        while time.monotonic() < until:
            state = subprocess.run(shown, env=env, capture_output=True, text=True, check=True).stdout
            if "JobState=COMPLETED" in state or "Reason=NonZero" in state or "JobState=FAILED" in state:
                break
            time.sleep(0.3)
    log = (tmp_path / f"meet-{number.strip()}.log").read_text()
    assert "JobState=COMPLETED" in state, log
    assert "TimeLimit=00:06:00" in state
    assert "met [1] batch 32" in log


def test_ray_starts_the_workers_that_were_planned(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs ray: pip install 'cotune[ray]'")
    (tmp_path / "meet.py").write_text(MEET)
    exported(planned(tmp_path, MEETING), "ray", "run_ray.py")
    said = start([sys.executable, "run_ray.py"], tmp_path, RAY_AUTH_MODE="disabled", RAY_ADDRESS="local")
    assert "met [1] batch 32" in said


@environments.needs("logs")
def test_accelerate_reads_its_config_and_launches_two_processes(tmp_path: Path) -> None:
    exported(planned(tmp_path), "accelerate", "accelerate.yaml")
    script = str(EXAMPLES / "minimal_ddp.py")
    code = f"""
import runpy, sys
from accelerate.commands.config.config_args import load_config_from_file
config = load_config_from_file("accelerate.yaml")
print(config.num_processes, config.num_machines, config.use_cpu, config.distributed_type.value)
sys.argv = ["accelerate", "launch", "--config_file", "accelerate.yaml", {script!r}, "--epochs", "1"]
runpy.run_module("accelerate.commands.accelerate_cli", run_name="__main__")
"""
    said = environments.run("logs", code, folder=tmp_path)
    assert said.startswith("2 1 True MULTI_GPU\n")
    assert len(TRAINED.findall(said)) == 1


@environments.needs("sky")
def test_skypilot_accepts_the_task(tmp_path: Path) -> None:
    chosen = Config.data_parallel(32, 8, "a100")
    exported(
        planned(tmp_path, JOB + A100 + "env: {HF_TOKEN: hf_x}\n", chosen=chosen, max_cost=1.0), "skypilot", "sky.yaml"
    )
    code = """
import sky, yaml
task = sky.Task.from_yaml_config(yaml.safe_load(open("sky.yaml")), secrets_overrides=[("HF_TOKEN", "given")])
(found,) = task.resources
print(task.name, task.num_nodes, dict(found.accelerators), found.max_hourly_cost)
"""
    said = environments.run("sky", code, folder=tmp_path)
    assert said.splitlines()[-1] == "digits-ddp 2 {'A100': 4} 18.0"


@environments.needs("sky")
def test_skypilot_recovers_spot_machines_from_a_bucket(tmp_path: Path) -> None:
    (tmp_path / "sky.yaml").write_text(write("skypilot", replace(gpu_order(), secrets=(), spot=True)))
    code = """
import sky, yaml
task = sky.Task.from_yaml_config({**yaml.safe_load(open("sky.yaml")), "workdir": None})
(found,) = task.resources
print(found.use_spot, found.job_recovery["strategy"], found.job_recovery["max_restarts_on_errors"])
print(list(task.storage_mounts))
"""
    said = environments.run("sky", code, folder=tmp_path)
    assert said.splitlines()[-2:] == ["True EAGER_NEXT_REGION 3", "['/checkpoint']"]


@environments.needs("sky")
def test_kubeflow_accepts_the_train_job(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        write("kubeflow", replace(gpu_order(), image="me/train:1", queue="team", volume="kept"))
    )
    code = """
import yaml
from kubeflow_trainer_api import models
job = models.TrainerV1alpha1TrainJob.from_dict(yaml.safe_load(open("job.yaml")))
spec = job.spec
assert job.metadata.labels == {"kueue.x-k8s.io/queue-name": "team"}
print(job.metadata.generate_name, spec.runtime_ref.name, spec.active_deadline_seconds, spec.trainer.num_nodes,
      spec.trainer.num_proc_per_node, spec.trainer.args, spec.trainer.image)
assert job.to_dict()["spec"] == yaml.safe_load(open("job.yaml"))["spec"], "nothing was dropped"
"""
    said = environments.run("sky", code, folder=tmp_path)
    assert said == "big-job- torch-distributed 3660 2 4 ['-m', 'package.train', '16'] me/train:1\n"


@pytest.mark.parametrize("target", names())
def test_every_export_goes_on_from_a_checkpoint_and_asks_for_secrets_without_writing_them(target: str) -> None:
    text = write(target, gpu_order())
    assert "big-job-batch128-checkpoint" in text
    assert "COTUNE_CHECKPOINT" in text
    assert "COTUNE_RESUME" in text
    assert "API_KEY" in text
    assert "s3cret" not in text


def test_a_second_start_goes_on_from_what_the_first_left(tmp_path: Path) -> None:
    shown = Job("x", ("sh", "-c", 'echo "resume=$COTUNE_RESUME"; touch "$COTUNE_CHECKPOINT/weights"'))
    made = order(launch(replace(shown, folder=str(tmp_path)), Config.data_parallel(4, 1)), Cluster())
    script = "\n".join(["cd " + str(tmp_path), *going_on(made), *made.command[2:]])
    said = [subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert said == ["resume=\n", "resume=1\n"]


def test_a_preempted_slurm_job_is_requeued_and_its_log_kept() -> None:
    text = write("slurm", gpu_order())
    assert "#SBATCH --requeue\n" in text
    assert "#SBATCH --open-mode=append\n" in text


def test_kueue_finds_its_queue_and_the_checkpoint_a_volume() -> None:
    plain = yaml.safe_load(write("kubeflow", gpu_order()))
    assert "labels" not in plain["metadata"]
    made = yaml.safe_load(write("kubeflow", replace(gpu_order(), queue="team", volume="kept")))
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    assert "claimName': 'kept'" in str(made["spec"]["runtimePatches"])


def test_a_secret_in_the_command_is_refused() -> None:
    job = Job("x", ("python", "train.py", "--token", "hf_abc"))
    with pytest.raises(UsageError, match=r"--token '\*\*\*'.*environment variable"):
        order(launch(job, Config.data_parallel(1, 1)), Cluster())


def test_servers_are_refused_with_what_runs_them() -> None:
    with pytest.raises(UsageError, match="1 parameter servers; run it with: cotune run"):
        order(launch(Job("x", ("python", "t.py")), Config.data_parallel(1, 1, servers=1)), Cluster())


@given(workers=st.integers(1, 300), per_node=st.integers(1, 16))
def test_nodes_hold_equally_many_workers_and_no_fewer_nodes_would_do(workers: int, per_node: int) -> None:
    cluster = Cluster((Device("gpu", per_node=per_node),))
    made = order(launch(Job("x", ("python", "t.py")), Config.data_parallel(1, workers, "gpu")), cluster)
    assert made.nodes * made.per_node == workers
    assert made.per_node <= per_node
    assert not any(workers % fewer == 0 and workers // fewer <= per_node for fewer in range(1, made.nodes))


def test_several_nodes_meet_at_the_first() -> None:
    text = write("torchrun", gpu_order())
    assert "--nnodes=2 --rdzv-backend=c10d" in text
    assert '--rdzv-endpoint="$HEAD:29500" -m package.train 16' in text
    unset = subprocess.run(["sh", "-c", text.replace("cd .", ":")], capture_output=True, text=True, check=False)
    assert unset.returncode != 0
    assert "API_KEY: must be set" in unset.stderr


def test_numbers_that_the_script_reads_from_its_environment_are_given() -> None:
    job = Job("x", ("python", "train.py"), reads=("batch_size",))
    made = order(launch(job, Config.data_parallel(48, 1)), Cluster())
    assert made.env == (("COTUNE_BATCH_SIZE", "48"),)


def test_an_export_says_where_its_plan_was_made_for_another_goal(tmp_path: Path) -> None:
    told = "made for accuracy at least 0.5; asked now: accuracy at least 0.9"
    planned(tmp_path, f"{JOB}target: accuracy>=0.9\n")
    assert told in cotune(tmp_path, "export", "torchrun").err
    assert told not in cotune(tmp_path, "export", "torchrun", "-w", "1", "-b", "16").err, "it follows no plan"
    (tmp_path / "cotune.yaml").write_text(f"{JOB}target: accuracy>=0.5\n")
    assert "following plan" not in cotune(tmp_path, "export", "torchrun").err
