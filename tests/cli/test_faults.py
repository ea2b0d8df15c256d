"""Bad input of every kind: one clear line, the right exit code, and nothing lost."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from cli.jobs import JOB, TRAINING, Done, cotune, script


def clear(done: Done, code: int, *words: str) -> None:
    """The end of stderr says what is wrong, in a line or as a list, and there is no stack."""
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    lines = done.err.strip().splitlines()
    last = "\n".join(lines[max(place for place, line in enumerate(lines) if line.startswith("cotune: ")) :])
    assert all(line.startswith("  ") for line in last.splitlines()[1:])
    for word in words:
        assert word in last


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("run: [python", 4, "not valid YAML"),
        ("rn: python train.py", 4, "rn: unknown key; did you mean 'run'?"),
        ("search: {batch_size: [-8]}", 4, "search.batch_size"),
        ("run: python nowhere.py {batch_size}", 3, "nowhere.py"),
        ("run: nosuchprogram {batch_size}", 3, "nosuchprogram"),
        ("run: torchrun train.py {batch_size}", 2, "python train.py"),
        ("run: python train.py {bach_size} {batch_size}", 2, "bach_size"),
        ("run: python train.py {batch_size}\npattern: '('", 4, "pattern: expected a regular expression"),
        ("run: python train.py {batch_size}\nengine: locl", 3, "did you mean 'local'"),
        ("run: python train.py {batch_size}\nengine: {local: {corse: 1}}", 2, "corse"),
    ],
)
def test_a_broken_job_is_refused_before_anything_starts(tmp_path: Path, text: str, code: int, words: str) -> None:
    script(tmp_path)
    (tmp_path / "cotune.yaml").write_text(text)
    clear(cotune(tmp_path, "profile"), code, words)


@pytest.mark.parametrize(
    ("code_put_in", "words"),
    [
        ({"setup": "raise RuntimeError('no luck today')"}, "no luck today"),
        ({"setup": "sys.exit(9)"}, "9"),
        ({"setup": "raise MemoryError"}, "out of memory"),
        ({"setup": "os.kill(os.getpid(), 11)"}, "SIGSEGV"),
        ({"after": "accuracy = float('nan')"}, "nan"),
    ],
)
def test_a_job_that_always_fails_ends_the_profile_with_its_reason(
    tmp_path: Path, code_put_in: dict[str, str], words: str
) -> None:
    script(tmp_path, **code_put_in)
    done = cotune(tmp_path, "profile", *JOB, "--max-epochs", "3", *TRAINING)
    clear(done, 7, words)
    kept = cotune(tmp_path, "samples", "--json").json["samples"]
    assert kept
    assert all(words in sample["failure"] for sample in kept)


def test_a_plan_whose_probes_all_fail_says_why(tmp_path: Path) -> None:
    script(tmp_path, setup="sys.exit(9)")
    goal = ("--target", "accuracy=0.5", "--deadline", "60s", "--max-epochs", "3")
    clear(cotune(tmp_path, "plan", *goal, *TRAINING), 7, "every start of")


def test_what_is_misspelt_is_told_before_anything_is_measured_or_made(tmp_path: Path) -> None:
    script(tmp_path)
    goal = ("--target", "accuracy=0.5", "--deadline", "60s")
    done = cotune(tmp_path, "plan", "--predictor", "gausian", *goal, *TRAINING)
    clear(done, 3, "no predictor named 'gausian'")
    assert "doing so now" not in done.err
    clear(cotune(tmp_path, "samples", "--store", "typo.db"), 3, "no store at")
    assert not (tmp_path / "typo.db").exists()


def test_a_failed_config_is_tried_again_only_when_asked(tmp_path: Path) -> None:
    script(tmp_path, setup="if batch == 48: raise RuntimeError('no luck today')")
    first = cotune(tmp_path, "profile", *JOB, "--max-epochs", "3", "--json", *TRAINING)
    assert first.code == 0, first.err
    assert sum(sample["failure"] is not None for sample in first.json["samples"]) == 1
    again = cotune(tmp_path, "profile", *JOB, "--max-epochs", "3", "--json", *TRAINING)
    assert all(sample["config"]["batch_size"] != 48 for sample in again.json["samples"])
    script(tmp_path)
    retried = cotune(tmp_path, "profile", *JOB, "--max-epochs", "3", "--retry-failed", "--json", *TRAINING)
    assert next(s["failure"] for s in retried.json["samples"] if s["config"]["batch_size"] == 48) is None


def test_a_crash_after_an_epoch_keeps_what_was_measured(tmp_path: Path) -> None:
    script(tmp_path, each="if epoch == 2: raise RuntimeError('late')")
    done = cotune(tmp_path, "run", *JOB[:4], "--workers", "1", "--batch-size", "16", "--epochs", "5", *TRAINING)
    clear(done, 7, "late")
    (kept,) = cotune(tmp_path, "samples", "--json").json["samples"]
    assert [point["epoch"] for point in kept["curve"]] == [1]
    assert kept["epoch_seconds"] is not None


def test_a_job_that_hangs_or_never_reports_times_out(tmp_path: Path) -> None:
    script(tmp_path, setup="time.sleep(600)")
    run = ("run", *JOB[:4], "--workers", "1", "--batch-size", "16", "--epochs", "5")
    clear(cotune(tmp_path, *run, "--timeout", "1s", *TRAINING), 7, "timed out", "no report")
    (tmp_path / "silent.py").write_text("print('hello')\n")
    clear(cotune(tmp_path, *run, "--", "python", "silent.py", "{batch_size}"), 7, "ended without a report")


def test_an_accuracy_that_falls_is_never_promised_beyond_what_it_reached(tmp_path: Path) -> None:
    script(tmp_path, after="accuracy = accuracy if epoch < 3 else 0.1")
    assert cotune(tmp_path, "profile", *JOB, "--max-epochs", "6", *TRAINING).code == 0
    easy = cotune(tmp_path, "plan", "--target", "accuracy=0.6", "--max-epochs", "6", "--confidence", "0.7", "--json")
    assert easy.code == 0, easy.err
    assert easy.json["plan"]["forecast"]["epochs"]["mid"] <= 2
    clear(cotune(tmp_path, "plan", "--target", "accuracy=0.97", "--max-epochs", "6"), 5, "target binds")


def test_another_interpreter_s_script_runs_under_that_interpreter(tmp_path: Path) -> None:
    other = shutil.which("sh")
    assert other
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "train.sh").write_text('for e in 1 2 3; do echo "epoch $e accuracy 0.$e"; done\n')
    pattern = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>[\d.]+)"
    words = ("--pattern", pattern, "--max-epochs", "3", "--json", "--", "sh", "train.sh", "{batch_size}")
    done = cotune(
        tmp_path, "run", *JOB[:4], "--workers", "1", "--batch-size", "16", "--epochs", "3", *words[:2], *words[4:]
    )
    assert done.code == 0, done.err
    assert done.json["run"]["accuracy"] == 0.3


def test_a_corrupt_store_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    script(tmp_path)
    store = tmp_path / ".cotune" / "store.db"
    store.write_bytes(b"this is no database" * 100)
    clear(cotune(tmp_path, "profile", *JOB, *TRAINING), 4, str(store), "mv ")
    assert store.read_bytes() == b"this is no database" * 100


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    script(tmp_path)
    assert cotune(tmp_path, "samples").code == 0
    store = tmp_path / ".cotune" / "store.db"
    with sqlite3.connect(store) as connection:
        connection.execute("insert into cotune_schema values (999, 'in a later age')")
    connection.close()
    before = store.read_bytes()
    clear(cotune(tmp_path, "samples"), 4, "999")
    clear(cotune(tmp_path, "profile", *JOB, *TRAINING), 4, "999")
    assert store.read_bytes() == before


def test_a_store_that_cannot_be_written_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / ".cotune" / "store.db").mkdir()
    clear(cotune(tmp_path, "profile", *JOB, *TRAINING), 4, "store.db")


def test_a_budget_too_small_for_one_start_is_over_budget(tmp_path: Path) -> None:
    script(tmp_path, setup="time.sleep(600)")
    clear(cotune(tmp_path, "profile", *JOB, "--budget", "1s", *TRAINING), 8, "larger budget (--budget)")


def test_a_script_that_never_ran_and_was_fixed_is_tried_again(tmp_path: Path) -> None:
    """What failed before the job had ever run says nothing of its configs: it lacked a module, or had a fault."""
    script(tmp_path, setup="raise RuntimeError('no luck today')")
    clear(cotune(tmp_path, "profile", *JOB, "--max-epochs", "3", *TRAINING), 7, "no luck today")
    script(tmp_path)
    again = cotune(tmp_path, "profile", *JOB, "--max-epochs", "3", "--json", *TRAINING)
    assert again.code == 0, again.err
    assert all(sample["failure"] is None for sample in again.json["samples"])


def test_a_job_that_crashes_at_its_very_end_is_told_why_by_every_verb(tmp_path: Path) -> None:
    file = script(tmp_path)
    file.write_text(file.read_text() + "\nopen('/nowhere/model.npy', 'w')\n")
    goal = ("--target", "accuracy=0.999", "--deadline", "1h", "--max-epochs", "2")
    for verb, words in (("profile", "every start of digits failed"), ("plan", "--retry-failed")):
        clear(cotune(tmp_path, verb, *JOB, *goal, *TRAINING), 7, words, "/nowhere/model.npy")
    clear(cotune(tmp_path, "plan", *JOB, *goal, "--no-measure", *TRAINING), 3, "measure it first")
