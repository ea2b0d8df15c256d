"""Names, variables and words of a job file: what would act in a script is refused on reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.errors import InvalidFile, UsageError
from cotune.jobfile import settings as job_settings
from cotune.jobfile.names import require_exportable
from cotune.types import Job

RUN = "run: python t.py {batch_size}\n"


@pytest.mark.parametrize(
    "text",
    [
        'name: "x\\ntouch P #"',
        'name: "\\e[2Jx"',
        'name: ""',
        'name: "\\u202etxt"',
        f"name: {'x' * 201}",
        'env: {"A; touch P": "1"}',
        'env: {"A B": "1"}',
        'env: {"1A": "1"}',
        'env: {"": "1"}',
        'env: {A: "\\0"}',
        'run: "python\\0 t.py {batch_size}"',
        'devices: {"t4\\ntouch P": {count: 1}}',
        'target: {metric: "acc\\n", at_least: 1}',
        'search: {"a\\nb": [1, 2]}',
        'currency: "USD\\n"',
    ],
)
def test_what_would_act_in_a_script_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    head = "" if text.startswith("run") else RUN
    with pytest.raises(InvalidFile, match=r"cotune.yaml:\d+: ") as caught:
        job_settings.loads(head + text, {}, "cotune.yaml", tmp_path)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_ordinary_names_in_any_script_are_taken(tmp_path: Path) -> None:
    text = RUN + 'name: "größe 1 (模型); $HOME"\nenv: {_A1: "two\\nlines; $(x)", path: ""}'
    job = job_settings.loads(text, {}, "cotune.yaml", tmp_path).job
    assert job.name == "größe 1 (模型); $HOME"
    assert dict(job.env)["_A1"] == "two\nlines; $(x)"


def test_a_folder_with_an_odd_name_gives_a_job_a_plain_one(tmp_path: Path) -> None:
    folder = tmp_path / "a\nb"
    folder.mkdir()
    assert job_settings.loads("", {}, "cotune.yaml", folder).job.name == "a\\x0ab"


@pytest.mark.parametrize(
    "job",
    [
        Job("x\ntouch P #", ("t",)),
        Job("x", ("t",), env=(("A; touch P", "1"),)),
        Job("x", ("t",), env=(("A", "\0"),)),
        Job("x", ("t\0",)),
        Job("x", ("t",), folder="/a\nb"),
    ],
)
def test_a_job_made_in_python_is_checked_before_it_is_written(job: Job) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        require_exportable(job)
