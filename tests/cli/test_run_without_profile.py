"""`cotune run` without a profile, for real: it times a few starts, trains, tells its odds and pays for all of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cotune as library
from cli.jobs import checkpointing, cotune, environment, script

RECORDINGS = Path(__file__).parents[2] / "recordings"
FILE = """name: digits
run: {run}
examples: 1440
max_epochs: 20
target: {{metric: accuracy, at_least: {target}}}
deadline: {deadline}
search: {{workers: [1], batch_size: [24, 48, 96]}}
"""
SLOW_TO_COME_UP = """
import sys, time
if "cotune.run.local.keeper" in sys.orig_argv:
    time.sleep(4.2)
"""


def job(folder: Path, target: float, deadline: str, setup: str = "") -> None:
    checkpointing(folder, setup=setup or "pass")
    run = "python train.py {batch_size} {epochs}"
    (folder / "cotune.yaml").write_text(FILE.format(run=run, target=target, deadline=deadline))


def test_a_run_without_a_profile_measures_itself_and_counts_what_that_took(tmp_path: Path) -> None:
    job(tmp_path, 0.874, "10m")
    ran = cotune(tmp_path, "run", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["met"]
    assert ran.json["plan"] is None
    measured = ran.json["measured"]
    assert measured["probes"] >= 1
    assert 0 < measured["device_seconds"] <= ran.json["run"]["cost"]["value"]
    assert "no plan: measuring on the way" in ran.err
    assert "beginning with batch" in ran.err


def test_a_job_that_tells_nothing_in_its_share_of_the_deadline_is_begun_all_the_same(tmp_path: Path) -> None:
    job(tmp_path, 0.874, "22s", setup="time.sleep(4.6)")
    ran = cotune(tmp_path, "run", "--json")
    assert ran.code in (0, 6), ran.err  # a busy machine may be late
    assert "it told no pace within 4.4 s" in ran.err
    assert ran.json["measured"]["probes"] == 1
    assert ran.json["run"]["epochs"] > 0


def test_a_run_begins_at_once_where_a_script_s_imports_may_take_all_that_probes_have(tmp_path: Path) -> None:
    """A probe was ended while the script still imported: a fifth of the deadline was lost, and nothing learnt."""
    job(tmp_path, 0.3, "12s", setup="time.sleep(2.5)")
    ran = cotune(tmp_path, "run", "--json")
    assert ran.code in (0, 6), ran.err  # a busy machine may be late
    assert "2.4 s may be over before any has told its pace" in ran.err
    assert "measured" not in ran.json
    assert ran.json["run"]["epochs"] > 0


def test_an_engine_that_takes_longer_to_come_up_than_probes_may_does_not_leave_them_untold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run goes on with it: the first probe was ended before its code began, and nothing was learnt."""
    (tmp_path / "sitecustomize.py").write_text(SLOW_TO_COME_UP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    job(tmp_path, 0.3, "20s")
    with library.open(tmp_path / "cotune.yaml") as project:
        run = project.run()
        assert run.itself is not None
        run.itself.closing.close()
    first = run.itself.probes[0]
    assert first.epoch_seconds is not None
    assert (first.terms.engine or 0.0) > 4.0
    assert "told no pace" not in capsys.readouterr().err


def test_odds_below_what_was_asked_are_told_with_what_would_help(tmp_path: Path) -> None:
    job(tmp_path, 0.9999, "10m")
    ran = cotune(tmp_path, "run")
    assert ran.code == 6, ran.err
    assert "P(met)" in ran.err
    assert "is below the 0.9 asked" in ran.err
    assert "would help" in ran.err or "would make it" in ran.err
    assert (ran.out + ran.err).count("0.9999 was asked") == 1
    assert "forecast" not in ran.out, "there was none"


def test_ctrl_c_while_it_measures_says_what_is_kept(tmp_path: Path) -> None:
    job(tmp_path, 0.874, "10m", setup="time.sleep(0.5)")
    command = [sys.executable, "-m", "cotune", "run"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        while "probe 1 of" not in running.stderr.readline():
            assert running.poll() is None, "it ended before it could be interrupted"
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130
    assert "interrupted: what was measured is kept, and the same command goes on from there" in said


def test_a_job_seen_before_is_not_timed_again(tmp_path: Path) -> None:
    job(tmp_path, 0.874, "10m")
    first = cotune(tmp_path, "run", "--json")
    again = cotune(tmp_path, "run", "--json", "--from-scratch")
    assert again.code == 0, again.err
    probes = again.json.get("measured", {"probes": 0})["probes"]
    assert probes < first.json["measured"]["probes"] + 1
    assert again.json["met"]


def test_without_a_target_a_run_still_asks_for_a_plan(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "cotune.yaml").write_text("run: python train.py {batch_size}\nsearch: {batch_size: [1, 2]}\n")
    done = cotune(tmp_path, "run", "--json")
    assert done.code == 3
    assert "there is no plan" in done.json["error"]["message"]


def test_the_only_number_of_workers_need_not_be_given(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "cotune.yaml").write_text("examples: 1440\nsearch: {workers: 1, batch_size: [16, 48]}\n")
    done = cotune(
        tmp_path, "run", "-b", "48", "--epochs", "1", "--json", "--", "python", "train.py", "{batch_size}", "{epochs}"
    )
    assert done.code == 0, done.err
    assert done.json["run"]["config"]["workers"] == 1


def test_a_target_that_no_evaluation_can_meet_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    job(tmp_path, 0.5, "10m")
    assert cotune(tmp_path, "run").code == 0
    refused = cotune(tmp_path, "run", "--target", "accuracy=1.3", "--json")
    assert refused.code == cotune(tmp_path, "plan", "--target", "accuracy=1.3").code == 5
    assert "no evaluation can meet 1.3: accuracy was 0." in refused.json["error"]["message"]
    assert "0.013" not in refused.err
    trained = cotune(tmp_path, "run", "--target", "accuracy=1.3", "-w", "1", "-b", "48", "--epochs", "1")
    assert "no evaluation can meet" not in trained.err, "so many epochs were asked for"


def test_a_recording_is_not_replayed_for_a_target_that_no_evaluation_can_meet(tmp_path: Path) -> None:
    asked = ("run", "--recording", str(RECORDINGS / "lenet5-mnist-nodes"), "--target")
    for target, instead in {"2": "same unit?", "97": "same unit (0.97)?"}.items():
        refused = cotune(tmp_path, *asked, target)
        assert refused.code == 5
        assert f"no evaluation can meet {target}: " in refused.err
        assert instead in refused.err
        assert "P(met)" not in refused.err


def test_after_a_refused_plan_a_run_begins_with_the_odds_that_the_plan_told(tmp_path: Path) -> None:
    job(tmp_path, 0.89, "10m")
    script(tmp_path)  # which leaves no checkpoint to go on from
    (tmp_path / "cotune.yaml").write_text((tmp_path / "cotune.yaml").read_text() + "confidence: 0.999\n")
    assert cotune(tmp_path, "profile", "--max-samples", "6").code == 0
    refused = cotune(tmp_path, "plan", "--json")
    assert refused.code == 5, refused.out
    ran = cotune(tmp_path, "run")
    begun = re.search(r"beginning with batch (\d+) on 1 worker .*P\(met\) (\S+)", ran.err)
    assert begun is not None, ran.err
    told = {near["config"]["batch_size"]: near["probability"] for near in refused.json["error"]["nearest"]}
    assert float(begun[2]) == pytest.approx(told[int(begun[1])], abs=0.006)


def test_a_profile_measures_something_exactly_where_a_probe_is_worth_it(tmp_path: Path) -> None:
    job(tmp_path, 0.93, "10m")
    for _ in range(6):
        assert cotune(tmp_path, "profile", "--max-samples", "4").code == 0
        with library.open(tmp_path / "cotune.yaml") as project:
            if project.next_probe() is None:
                break
    again = cotune(tmp_path, "profile", "--json")
    assert again.json["samples"] == []
    refused = cotune(tmp_path, "plan")
    assert refused.code == 5
    assert "cotune profile" not in refused.err
