from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.safety import redact
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


KEY = "Ab3" * 14  # letters of a key that has a shape
FORMS = {
    "bearer": ("curl -H 'Authorization: Bearer {}'", SECRET),
    "basic": ("Authorization: Basic {}", "aHVudGVyMg=="),
    "header": ("curl -H 'X-API-Key: {}' https://host", SECRET),
    "url password": ("postgresql://me:{}@host/db", SECRET),
    "url token": ("git clone https://{}@host/us/ours", SECRET),
    "query": ("https://host/data?sv=1&sig={}&x=2", SECRET),
    "presigned": ("https://b.s3.amazonaws.com/k?X-Amz-Signature={}", SECRET),
    "flag=value": ("train --api-key={} --lr 1", SECRET),
    "flag value": ("train --db-pass {} --lr 1", SECRET),
    "variable": ("MYSQL_PWD={} train", SECRET),
    "quoted with escapes": ('TOKEN="hun\\"{}" train', SECRET),
    "json": ('{{"password" : "{}"}}', SECRET),
    "json in json": ('"{{\\"api_key\\": \\"{}\\"}}"', SECRET),
    "yaml": ("db:\n  password: {}\n", SECRET),
    "encoded": ("https://host/?next=%3Ftoken%3D{}", SECRET),
    "curl user": ("curl -s -u me:{} https://host", SECRET),
    "netrc": ("machine host login me password {}", SECRET),
    "connection string": ("Server=h;AccountKey={};Database=d", SECRET),
    "aws": ("used {} to sign", "AKIAABCDEFGHIJKLMNOP"),
    "gcp": ("got 403 for {}", f"AIza{KEY[:35]}"),
    "github": ("cloned with {}", f"ghp_{KEY[:36]}"),
    "hugging face": ("login({})", f"hf_{KEY[:34]}"),
    "openai": ("client {} refused", f"sk-proj-{KEY}"),
    "slack": ("posting as {}", f"xoxb-1234567890-{KEY[:24]}"),
    "slack hook": ("https://hooks.slack.com/services/{}", f"T0/B0/{KEY[:24]}"),
    "jwt": ("signed in as {}", f"eyJhbGciOiJI.eyJ{KEY}.{KEY}"),
    "pem": ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", KEY),
    "torn pem": ("-----BEGIN PRIVATE KEY-----\n{}\nMIIE", KEY),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_secret_is_masked(form: str) -> None:
    line, value = FORMS[form]
    masked = redact.text(line.format(value))
    assert value not in masked
    assert redact.MASK in masked
    assert redact.text(masked) == masked
    assert value not in dict(redact.environment((("NOTE", line.format(value)),)))["NOTE"]


def test_what_stands_around_a_secret_stays() -> None:
    assert redact.text('{"password": "x", "lr": 1}') == '{"password": ***, "lr": 1}'
    assert redact.text("db:\n  password: x\n  host: h") == "db:\n  password: ***\n  host: h"
    assert redact.text("curl -s -u me:x https://host") == "curl -s -u me:*** https://host"


@pytest.mark.parametrize(
    "line",
    [
        "InvalidTokenError: unexpected end",
        "Missing key(s) in state_dict: conv.weight",
        "unexpected key: conv.weight",
        "monkey=3 keyframes=2 turkey: 1",
        "pass=3 of 10, --pass 3",
        "sk-learn hf_model AKIA eyJ",
        "author: me, authored: now",
        "python -u train.py:main",
        "passing: 3 signal: 9 design=2",
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
