"""What strangers type: every slip gets a sentence that says what is meant, the right exit code, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import cotune

JOB = """\
name: net
run: python train.py --batch-size {batch_size} --epochs {epochs}
examples: 100
pattern: 'epoch (?P<epoch>\\d+) acc (?P<accuracy>[\\d.]+)%'
target: accuracy=90
deadline: 10m
"""
SCRIPT = "print('epoch 1 acc 41.6%')\n"
USAGE, NOT_FOUND, INVALID, FAILED = 2, 3, 4, 7
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
    # files and commands
    ("import", USAGE, "there are logs of huggingface, lightning, mlflow"),
    ("import tensorboard", USAGE, "cotune import tensorboard PATH"),
    ("export", USAGE, "skypilot, slurm, torchrun"),
    ("plan --file nosuch.yaml", NOT_FOUND, "no job file at nosuch.yaml"),
    ("plan cotune.yaml", USAGE, "--file cotune.yaml"),
    ("profile -- python nosuch.py {batch_size}", NOT_FOUND, "no script 'nosuch.py'"),
    ("init --force -- python nosuch.py", USAGE, "no script 'nosuch.py'"),
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
    # models and benchmarks
    ("model layouts nosuch --gpus 8 --global-batch 64", NOT_FOUND, "give its config.json"),
    ("model layouts 7e9 --gpus 8 --global-batch 64 --device h1000", NOT_FOUND, "no device 'h1000'"),
    ("model layouts 7e9 --gpus 8 --global-batch 64 --table nosuch", NOT_FOUND, "no table of layouts at nosuch"),
    ("model layouts 7e9 --gpus 8 --global-batch 64 --table empty", INVALID, "it has no rows"),
    ("bench memory nosuch", NOT_FOUND, "no finetune.csv in nosuch"),
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
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "layouts.csv").write_text("model,gpus\n")
    done = cotune(tmp_path, *words.split())
    assert "Traceback" not in done.err
    assert said in " ".join(done.err.split())
    assert done.code == code
