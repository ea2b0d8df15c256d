"""What strangers type: every slip gets a sentence that says what is meant, the right exit code, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import cotune
from golden.commands import INPUTS

JOB = """\
name: net
run: python train.py --batch-size {batch_size} --epochs {epochs}
examples: 100
pattern: 'epoch (?P<epoch>\\d+) acc (?P<accuracy>[\\d.]+)%'
target: accuracy=90
deadline: 10m
"""
SCRIPT = "print('epoch 1 acc 41.6%')\n"
USAGE, NOT_FOUND, INVALID, INFEASIBLE, FAILED = 2, 3, 4, 5, 7
SLIPS = [
    # goals
    ("plan --target accuracy=0.91 --deadline 2h", USAGE, "write accuracy=91"),
    ("run --target accuracy=0.91", USAGE, "write accuracy=91"),
    ("profile --target accuracy=0.91", USAGE, "write accuracy=91"),
    ("plan --target acuracy=91", USAGE, "did you mean 'accuracy'?"),
    ("run --target acuracy=91", USAGE, "did you mean 'accuracy'?"),
    ("profile --target accuracy=91%", USAGE, "a target such as accuracy=0.98"),
    ("plan --target accuracy", USAGE, "in quotes, for the shell"),
    ("plan --deadline 2hours", USAGE, "a positive duration such as 90s, 45m or 2h"),
    ("run --deadline -5m", USAGE, "a positive duration"),
    ("plan --confidence 95", USAGE, "--confidence: expected a probability of at most 0.999 (write 0.95), not 95"),
    # spaces
    ("profile --workers 0", USAGE, "whole numbers of at least 1"),
    ("plan --workers 1-8", USAGE, "such as 1,2,4"),
    ("run --workers 0", USAGE, "--workers"),
    ("plan --batch-size 0", USAGE, "whole numbers of at least 1"),
    ("profile --budget five", USAGE, "a positive duration"),
    ("plan --budget soon", USAGE, "such as 90s, 45m or 2h, not 'soon'"),
    ("plan --prefer cheapest", USAGE, "--prefer: expected 'cheap', 'fast' or 'accurate', not 'cheapest'"),
    ("plan --target accuracy=high", USAGE, "--target"),
    ("plan --max-cost -3", USAGE, "--max-cost: expected greater than 0, not -3.0"),
    ("plan --axis precision=2..1", USAGE, "--axis precision: expected a range that rises, such as 1..8"),
    ("profile --axis precision", USAGE, "--axis"),
    ("run -w 1 -b 8 --axis precision=bf16", USAGE, "axis precision: the command has no {precision}"),
    ("profile -w two", USAGE, "--workers: expected whole numbers of at least 1"),
    ("prices h1000", NOT_FOUND, "did you mean 'h100'?"),
    ("model predict lenet5 --batch-size 0", USAGE, "--batch-size: expected whole numbers of at least 1"),
    # numbers that no run could use
    ("run -w 100000 -b 8 --epochs 1", USAGE, "one machine runs at most 1,000 worker processes"),
    ("run -w 2 -b 99999999999999999999 --epochs 1", USAGE, "99999999999999999999 is not a number from"),
    ("export torchrun -w 2 -b 99999999999999999999", USAGE, "99999999999999999999 is not a number from"),
    ("profile -w [1", USAGE, "a list such as 16,32,64, not '[1'"),
    ("profile -w @", USAGE, "a list such as 16,32,64, not '@'"),
    ("profile -b 99999999999999999999", USAGE, "numbers of at most 1,000,000,000"),
    ("plan --deadline 1e308", USAGE, "a positive duration"),
    ("plan --max-cost nan", USAGE, "nan is not a number from"),
    # recordings
    ("plan --recording inputs/small --nosuch", USAGE, "No such option: --nosuch"),
    ("plan --recording inputs/small --target f1=0.8", USAGE, "has accuracy, not f1"),
    ("plan --recording inputs/small --target accuracy<=0.8", USAGE, "a higher accuracy is better"),
    ("plan --recording inputs/small --workers 8..1", USAGE, "--workers: expected a range that rises, such as 1..8"),
    ("plan --recording inputs/small --search tabu(rounds)", USAGE, "cannot read the settings 'rounds'; write each"),
    ("plan --recording inputs/small --budget 5m", USAGE, "--max-device-seconds"),
    ("plan --recording inputs/broken --target 0.8", INVALID, "epoch_time.csv:2"),
    ("plan --recording inputs/speed --target 0.8", NOT_FOUND, "accuracy.csv"),
    ("plan --recording nosuch --target 0.8", NOT_FOUND, "no recording at nosuch"),
    # files and commands
    ("import", USAGE, "there are logs of huggingface, lightning, mlflow"),
    ("import tensorbord .", NOT_FOUND, "did you mean 'tensorboard'?"),
    ("import ray-tune inputs/logs/ray_tune --metric acuracy", NOT_FOUND, "did you mean 'accuracy'?"),
    ("import ray-tune inputs/logs/ray_tune --runs other", NOT_FOUND, "no run matches"),
    ("import ray-tune inputs/logs/ray_tune --runs (", USAGE, "is not a regular expression"),
    ("import tensorboard", USAGE, "cotune import tensorboard PATH"),
    ("export", USAGE, "skypilot, slurm, torchrun"),
    ("export slrum -w 1 -b 8", NOT_FOUND, "did you mean 'slurm'?"),
    ("export torchrun", NOT_FOUND, "there is no plan"),
    ("export slurm -w 1 -b 8 -o train.py", USAGE, "train.py is there already"),
    ("export slurm -w 1 -b 8 -o no/folder/file", NOT_FOUND, "no/folder"),
    ("report", NOT_FOUND, "measure it first: cotune profile"),
    ("plan --file nosuch.yaml", NOT_FOUND, "no job file at nosuch.yaml"),
    ("plan cotune.yaml", USAGE, "--file cotune.yaml"),
    ("profile -- python nosuch.py {batch_size}", NOT_FOUND, "no script 'nosuch.py'"),
    ("init --force -- python nosuch.py", USAGE, "no script 'nosuch.py'"),
    ("init --force -- python train.py --batch-size 32", USAGE, "write: python train.py --batch-size {batch_size}"),
    ("profile -- python train.py", USAGE, "{batch_size}"),
    ("profile -- python crash.py {batch_size} --epochs {epochs}", FAILED, "ModuleNotFoundError"),
    ("porfile", USAGE, "did you mean 'profile'?"),
    ("plan --targt 91", USAGE, "--target"),
    ("run --resume", NOT_FOUND, "no unfinished run"),
    # the service and its store
    ("serve --cluster 0x8 --store s.db", USAGE, "13x8 (nodes x GPUs)"),
    ("serve --cluster nosuch.yaml --store s.db", NOT_FOUND, "no cluster file at nosuch.yaml"),
    ("serve --cluster 4x8 --slots 3 --store s.db", USAGE, "give one"),
    ("serve --policy fiffo --store s.db --check", NOT_FOUND, "did you mean 'fifo'?"),
    ("serve --listen 99999 --store s.db --check", USAGE, "a port alone"),
    ("serve --listen 8791 --store s.db --check", USAGE, "name a file of tokens"),
    ("serve --listen 8791 --tokens nosuch --store s.db --check", NOT_FOUND, "nosuch"),
    ("submit nosuch.yaml --store s.db", NOT_FOUND, "no job file at nosuch.yaml"),
    ("queue --store nosuch.db", NOT_FOUND, "no store at"),
    ("queue --state runing", USAGE, "did you mean 'running'?"),
    ("queue --store train.py", INVALID, "is not a readable store"),
    ("status 5", NOT_FOUND, "no job '5'"),
    ("backup copy.db --store nosuch.db", NOT_FOUND, "no store at"),
    ("backup nosuch/copy.db", INVALID, "its folder must be there"),
    ("backup train.py", USAGE, "is there already"),
    ("submit cotune.yaml --target accuracy=0.91 --store s.db", USAGE, "write accuracy=91"),
    # simulations and placements
    ("simulate inputs/plain.csv --cluster 8 --policy fifoo", NOT_FOUND, "did you mean 'fifo'?"),
    ("simulate inputs/plain.csv --cluster 8 --policy las(nonsense=1)", USAGE, "no setting 'nonsense'"),
    ("simulate inputs/plain.csv --cluster four", USAGE, "13x8 (nodes x GPUs)"),
    ("simulate inputs/plain.csv --cluster 4..8", USAGE, "13x8 (nodes x GPUs)"),
    ("simulate inputs/plain.csv --cluster 4", INVALID, "asks for 8 GPUs, the cluster has 4"),
    ("simulate inputs/plain.csv --cluster 8 --only cluster", USAGE, "write --only cluster=02"),
    ("simulate inputs/plain.csv --cluster 8 --only cluster=3", INVALID, "has no column 'cluster'"),
    ("simulate inputs/plain.csv --cluster 8 --noise x", USAGE, "write --noise 0.1,0.3,1.0"),
    ("simulate inputs/plain.csv --cluster 8 --placement tetris", USAGE, "no placement named 'tetris'"),
    ("simulate inputs/plain.csv --cluster 2x4 --placement tetris", USAGE, "no placement named 'tetris'"),
    ("simulate inputs/plain.csv --cluster 8 --why nobody --at 3", NOT_FOUND, "no job 'nobody' in the trace"),
    ("simulate inputs/plain.csv --cluster 8 --why long", USAGE, "go together"),
    ("simulate inputs/plain.csv --cluster 8 --at 3", USAGE, "go together"),
    ("simulate inputs/plain.csv --cluster 8 --why long --at nan", USAGE, "nan is not a number from"),
    ("simulate inputs/plain.csv --cluster 8 --why long --at inf", USAGE, "inf is not a number from"),
    ("simulate inputs/plain.csv --cluster 8 --load 0", USAGE, "must be positive"),
    ("simulate inputs/plain.csv --cluster 8 --window 100", USAGE, "write --window 0..7d"),
    ("simulate inputs/plain.csv --cluster 8 --window 300..200", USAGE, "ends before it begins"),
    ("simulate inputs/plain.csv --cluster 8 --window 5000..6000", INVALID, "its jobs come from 0 to 90 s"),
    ("simulate inputs/plain.csv --cluster 8 --window 2020-03-01..2020-03-02", USAGE, "has no dates"),
    ("simulate inputs/plain.csv --cluster 8 --team-column nobody", INVALID, "has no column 'nobody'"),
    ("simulate inputs/plain.csv --cluster 8 --failures mtbf=1d,repair=1h", USAGE, "needs nodes that can fail"),
    ("simulate inputs/plain.csv --cluster 2x4 --failures mtbf=1d", USAGE, "needs both mtbf and repair"),
    ("simulate inputs/plain.csv --cluster 2x4 --failures mtfb=1d,repair=1h", USAGE, "did you mean 'mtbf'?"),
    ("place inputs/placement.json", USAGE, "Missing option '--throughput'"),
    ("place inputs/placement.json --throughput 0", USAGE, "--throughput must be positive"),
    ("place inputs/placement.json --throughput 1e9", INFEASIBLE, "no plan reaches"),
    ("place inputs/placement.json --throughput nan", USAGE, "nan is not a number from"),
    ("place inputs/placement.json --throughput 5 --prefer cheep", USAGE, "did you mean 'cheap'?"),
    ("place inputs/placement.json --throughput 5 --batches a", USAGE, "write --batches 256,1024,4096"),
    ("place inputs/placement.json --throughput 5 --search nothing", NOT_FOUND, "no search named 'nothing'"),
    ("place inputs/placement.json --throughput 5 --search genetic(pop=3)", USAGE, "did you mean 'population'?"),
    ("place inputs/placement.json --throughput 5 --time-limit soon", USAGE, "cannot read 'soon' as a duration"),
    # models and benchmarks
    ("model layouts nosuch --gpus 8 --global-batch 64", NOT_FOUND, "give its config.json"),
    ("model layouts 7e9 --gpus 8 --global-batch 64 --device h1000", NOT_FOUND, "no device 'h1000'"),
    ("model layouts 7e9 --gpus 8 --global-batch 64 --table nosuch", NOT_FOUND, "no file nosuch/layouts.csv"),
    ("model layouts 7e9 --gpus 8 --global-batch 64 --table empty", INVALID, "it has no rows"),
    ("bench memory nosuch", NOT_FOUND, "no file nosuch/finetune.csv"),
    ("bench layouts nosuch", NOT_FOUND, "no table of layouts in nosuch"),
    ("bench layouts empty", INVALID, "it has no rows"),
    ("bench planning --recordings nosuch --other-seeds", NOT_FOUND, "no recording at nosuch"),
    ("import mlperf_recent . ", USAGE, "say where they go with --output"),
    ("import mlperf_recent nosuch -o out", NOT_FOUND, "no folder nosuch"),
    ("import mlperf_recent . -o out", NOT_FOUND, "runs.csv.gz"),
    ("import mlperf_recnt . -o out", NOT_FOUND, "did you mean 'mlperf_recent'?"),
]


@pytest.mark.parametrize(("words", "code", "said"), SLIPS, ids=[words for words, _, _ in SLIPS])
def test_a_slip_is_answered_with_what_is_meant(words: str, code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "cotune.yaml").write_text(JOB)
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "crash.py").write_text("import nosuchmodule\n")
    (tmp_path / "inputs").symlink_to(INPUTS)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "layouts.csv").write_text("model,gpus\n")
    done = cotune(tmp_path, *words.split())
    assert "Traceback" not in done.err
    assert said in " ".join(done.err.split())
    assert done.code == code
    assert (tmp_path / "cotune.yaml").read_text() == JOB
    assert (tmp_path / "train.py").read_text() == SCRIPT
