from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune import redact
from cotune.types import Job

SECRET = "hunter2"


@pytest.mark.parametrize(
    "line",
    [
        f"python train.py --token {SECRET} --epochs 3",
        f"python train.py --db-password={SECRET}",
        f"API_KEY={SECRET} python train.py",
        f"bash -c 'HF_TOKEN={SECRET} exec train'",
        f"curl -H 'Authorization: Bearer {SECRET}'",
        f"--data postgresql+psycopg://me:{SECRET}@host/db",
        f"--data redis://:{SECRET}@host:6379/0",
        f"--data postgresql://me:p@{SECRET}@host/db",
        f"git clone https://{SECRET}@github.com/us/ours",
        f"s3://bucket/data?access_token={SECRET}&part=1",
        f'\'{{"api_key": "{SECRET}"}}\'',
        f"--credential '{SECRET} {SECRET}'",
    ],
)
def test_a_secret_is_masked_wherever_it_stands(line: str) -> None:
    masked = redact.text(line)
    assert SECRET not in masked
    assert redact.MASK in masked
    assert SECRET not in " ".join(redact.command(tuple(shlex.split(line))))


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --batch-size {batch_size} --lr {lr}",
        "--tokenizer gpt2 --max-tokens 2048 --keypoints 17",
        "TOKENIZERS_PARALLELISM=false",
        "http://host:80/path@version",
        "KeyError: 'loss'",
        "the token expired",
        "--secret --verbose",
    ],
)
def test_what_is_no_secret_is_left_alone(line: str) -> None:
    assert redact.text(line) == line
    assert redact.command(tuple(line.split())) == tuple(line.split())


def test_a_flag_and_its_value_may_be_two_words() -> None:
    given = ("python", "train.py", "--api-key", SECRET, "--epochs", "3", "--password=two words")
    assert redact.command(given) == ("python", "train.py", "--api-key", "***", "--epochs", "3", "--password=***")


@given(
    st.sampled_from(["TOKEN", "MY_SECRET", "DB_PASSWORD", "passwd", "AWS_ACCESS_KEY_ID", "GOOGLE_CREDENTIALS"]),
    st.text(min_size=1),
)
def test_an_environment_value_is_secret_by_its_name(name: str, value: str) -> None:
    assert redact.environment(((name, value), ("PATH", "/bin"))) == ((name, "***"), ("PATH", "/bin"))


@given(st.text())
def test_masking_twice_is_masking_once(words: str) -> None:
    once = redact.text(words)
    assert redact.text(once) == once


def test_a_masked_job_keeps_everything_else() -> None:
    job = Job("lenet", ("python", "train.py", "--token", SECRET), 100, env=(("HF_TOKEN", SECRET), ("A", "1")))
    masked = redact.job(job)
    assert masked.command == ("python", "train.py", "--token", "***")
    assert masked.env == (("HF_TOKEN", "***"), ("A", "1"))
    assert (masked.name, masked.examples, masked.metric) == (job.name, job.examples, job.metric)
