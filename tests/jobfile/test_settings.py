from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from cotune import registry
from cotune.cli import options
from cotune.errors import CotuneError, InvalidFile, NotFound, UsageError
from cotune.jobfile import settings as job_settings
from cotune.jobfile.file import json_schema
from cotune.run.engines.local import Local

FULL = """
name: lenet5-mnist
run: python train.py --batch-size {batch_size} --epochs {epochs} --lr {lr}
examples: 60000
target: {metric: accuracy, at_least: 0.985}
deadline: 2h
max_epochs: 30
search: {workers: 1..8, batch_size: [16, 32, 64, 128, 256, 512]}
lr: {at: 0.01, global_batch: 64, rule: linear}
budget: {profile: 5m, max_cost: 20}
devices: {t4: {price_per_hour: 0.35, count: 8, per_node: 4}}
engine: local
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "cotune.yaml"
    file.write_text(text)
    return file


def test_the_design_s_own_example_is_read_in_full(tmp_path: Path) -> None:
    settings = job_settings.load(written(tmp_path, FULL), {})
    assert settings.job.name == "lenet5-mnist"
    assert settings.job.command[0] == "python"
    assert settings.goal.target == 0.985
    assert settings.goal.deadline == 7200
    assert settings.goal.max_cost == 20
    assert settings.profile_seconds == 300
    assert dict(zip([a.name for a in settings.space.axes], settings.space.shape, strict=True)) == {
        "workers": 8,
        "batch_size": 6,
        "device": 1,
    }
    assert [(one.name, one.price_per_hour) for one in settings.cluster.devices] == [("t4", 0.35)]
    assert settings.cluster.unit == "USD"
    assert settings.job.lr is not None
    assert settings.job.lr.of(256) == pytest.approx(0.04)


def test_flags_win_over_the_file_and_merge_into_the_search(tmp_path: Path) -> None:
    overrides = {"deadline": "10m", "target": "accuracy=0.9", "search": {"workers": "2"}, "budget": {"max_cost": 5}}
    settings = job_settings.load(written(tmp_path, FULL), overrides)
    assert settings.goal.deadline == 600
    assert settings.goal.target == 0.9
    assert settings.goal.max_cost == 5
    assert settings.profile_seconds == 300
    assert settings.space.shape == (1, 6, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run: [unclosed", "not valid YAML"),
        ("run: python a.py\ndeadline: 1h\nrun: python b.py", ":3: not valid YAML: 'run' is written twice"),
        ("run: python a.py\nsearch: {workers: 1, workers: 2}", ":2: not valid YAML: 'workers' is written twice"),
        ("- a list", "expected keys and values"),
        ("exampels: 3", "exampels: unknown key; did you mean 'examples'?"),
        ("examples: many", ":1: examples: expected a valid integer"),
        ("name: x\nexamples: -5", ":2: examples: expected greater than 0, not -5"),
        ("search: {batch_size: [-4, 8]}", "search.batch_size: expected whole numbers of at least 1"),
        ("search: {worker: 1..4}", "search.worker: the command has no {worker}; did you mean 'workers'?"),
        ("search: {workers: 8..1}", "search.workers"),
        ("search: {batch_size: 1..100001}", "search.batch_size: expected a range of at most 100,000 values"),
        ("search: {workers: 1..50, batch_size: 1..20000}", "search: 1,000,000 configs; search at most 500,000"),
        ("target: {at_most: .inf}", "target.at_most: expected a finite number"),
        ("deadline: soon", "deadline"),
        ("deadline: -5m", "deadline"),
        ("target: {at_least: 1, at_most: 2}", "target: expected exactly one of at_least and at_most"),
        ("target: {at_leest: 1}", "target.at_leest: unknown key; did you mean 'at_least'?"),
        ("lr: {at: 0.1, global_batch: 64, rule: cubic}", "lr.rule"),
        ("devices: {t4: {price: 3}}", "devices.t4.price: unknown key; did you mean 'price_per_hour'?"),
        ("global_batch: 64\nsearch: {batch_size: [1]}", "global_batch fixes the recipe"),
        ("confidence: 1.5", "confidence"),
        ("schedule: cosin", ":1: schedule: expected constant, cosine, linear, one_cycle, wsd(0.3), step(30,60,80) or"),
        ("schedule: step(60,30)", "step(30,60,80)"),
        ("schedule: cosine\nwarmup: 0", ":2: warmup: expected greater than 0"),
    ],
)
def test_a_broken_job_file_names_the_key_and_what_was_expected(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        job_settings.load(written(tmp_path, text), {})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", None),
        ("schedule: unknown", "unknown"),
        ("schedule: wsd(0.3)\nwarmup: 0.1", "wsd(0.3) warmup(0.1)"),
        ("schedule: step(30, 60,80, factor=0.2)\nwarmup: 5", "step(30,60,80,factor=0.2) warmup(5)"),
        ("length: 1600 steps of 16\nschedule: step(400,800)\nwarmup: 80", "step(25,50) warmup(5)"),
        ("length: 2 epochs\nschedule: step(1)", "step(32)"),
    ],
)
def test_milestones_and_warm_up_are_counted_as_the_job_counts_or_are_shares(
    tmp_path: Path, text: str, told: str | None
) -> None:
    assert job_settings.load(written(tmp_path, text), {}).job.schedule == told


def test_a_missing_job_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cotune init"):
        job_settings.load(tmp_path / "cotune.yaml", {})


def test_a_command_without_a_place_for_the_batch_is_told_what_to_write() -> None:
    with pytest.raises(UsageError, match=r"write: python train\.py --batch-size \{batch_size\}"):
        job_settings.load(None, {"run": ["python", "train.py", "--batch-size", "32"]})
    with pytest.raises(UsageError, match=r"write: python train\.py --bs=\{batch_size\}"):
        job_settings.load(None, {"run": ["python", "train.py", "--bs=32"]})
    with pytest.raises(UsageError, match=r"no \{batch_size\}"):
        job_settings.load(None, {"run": ["python", "train.py"], "search": {"batch_size": "32,64"}})


def test_a_script_that_reads_the_batch_from_its_environment_needs_no_placeholder(tmp_path: Path) -> None:
    text = "run: python train.py\nreads: [batch_size]\nglobal_batch: 64"
    settings = job_settings.load(written(tmp_path, text), {})
    assert settings.space.global_batch == 64


def test_a_flag_for_the_level_keeps_the_metric_and_direction_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "target: {metric: loss, at_most: 0.3}")
    for text in ("loss=0.25", "0.25"):
        settings = job_settings.load(file, {"target": text})
        assert (settings.job.metric, settings.job.better, settings.goal.target) == ("loss", "lower", 0.25)


def test_an_unclosed_quote_in_the_command_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no closing quotation"):
        job_settings.load(written(tmp_path, "run: python 'train.py"), {})


def test_a_target_that_should_fall_is_at_most() -> None:
    settings = job_settings.load(None, {"target": {"metric": "loss", "at_most": 0.3}})
    assert settings.job.better == "lower"
    assert settings.goal.target == 0.3
    assert job_settings.load(None, {"target": "loss=0.3", "better": "lower"}).job.better == "lower"
    assert job_settings.load(None, {"target": "loss<=0.3"}).job.better == "lower"
    assert job_settings.load(None, {"target": "f1>=90"}).job.better == "higher"
    assert job_settings.load(None, {"target": "loss=0.3"}).job.better == "lower"
    with pytest.raises(UsageError, match=r"write los>=0\.3 or los<=0\.3; did you mean 'loss'"):
        job_settings.load(None, {"target": "los=0.3"})


def test_named_axes_are_kept_with_their_types(tmp_path: Path) -> None:
    text = "run: python t.py {batch_size} {precision} {flag}\nsearch: {precision: [fp32, bf16], flag: [1, 2]}"
    settings = job_settings.load(written(tmp_path, text), {})
    axes = {axis.name: axis.values for axis in settings.space.axes}
    assert axes["precision"] == ("fp32", "bf16")
    assert axes["flag"] == (1, 2)


def test_words_of_an_axis_reach_the_script_as_they_are_typed(tmp_path: Path) -> None:
    text = "run: python t.py {batch_size} --amp {amp} --compile {compile}\nsearch: {amp: [on, off, yes, no, true]}"
    space = job_settings.load(written(tmp_path, text), {"search": {"compile": "on,No,False"}}).space
    axes = {axis.name: axis.values for axis in space.axes}
    assert axes["amp"] == ("on", "off", "yes", "no", True)
    assert axes["compile"] == ("on", "No", False)
    assert options.chosen_axes(["amp=on", "tune=false"]) == {"amp": "on", "tune": False}


def test_an_engine_is_told_yes_or_no_as_before() -> None:
    told = job_settings.loads("engine: {local: {isolate: no}}", {}, "a file", Path()).engine_settings
    assert registry.make(Local, told, "a file").isolate is False


def test_the_published_schema_is_current_and_accepts_the_example() -> None:
    published = Path(__file__).parents[2] / "docs" / "cotune.schema.json"
    assert json.loads(published.read_text()) == json_schema(), "run: make schema"
    jsonschema.validate(yaml.safe_load(FULL), json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"exampels": 3}, json_schema())


def test_the_job_file_is_found_in_a_folder_above(tmp_path: Path) -> None:
    file = written(tmp_path, FULL)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert job_settings.find(deep) == file


def test_every_error_of_the_job_file_is_one_a_user_can_act_on(tmp_path: Path) -> None:
    for text in ("\x00", "a: &x\n b: *x", "run: 5", "env: 3", "engine: [1]", "search: 7", "? {}: 3"):
        with pytest.raises(CotuneError):
            job_settings.load(written(tmp_path, text), {})


@pytest.mark.parametrize(
    ("engine", "device", "count"),
    [
        ("local", "gpu", 2),
        ("{local: {gpu_slices: 8}}", "gpu", 16),
        ("{local: {gpus: 1}}", "gpu", 1),
        ("{local: {gpus: 0}}", "cpu", None),
        ("{local: {nodes: 8, cores: 0.2}}", "cpu", None),
        ("slurm", "cpu", None),
    ],
)
def test_a_job_that_names_no_devices_gets_the_gpus_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, device: str, count: int | None
) -> None:
    for address in ("0000:17:00.0", "0000:65:00.0"):
        (tmp_path / "gpus" / address).mkdir(parents=True)
    monkeypatch.setattr("cotune.devices.present._DRIVER", tmp_path / "gpus")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (had,) = job_settings.load(
        written(tmp_path, f"run: train --batch {{batch_size}}\nengine: {engine}\n"), {}
    ).cluster.devices
    assert (had.name, had.count) == (device, count)


def asynchronous(folder: Path, search: str, reads: str = "asynchronous") -> job_settings.Settings:
    text = f"run: python train.py {{batch_size}}\nreads: [{reads}]\nsearch: {{workers: [2], batch_size: [8], {search}}}"
    return job_settings.load(written(folder, text), {})


def test_servers_that_do_not_wait_are_an_axis_of_a_script_that_reads_them(tmp_path: Path) -> None:
    configs = list(asynchronous(tmp_path, "servers: [1], asynchronous: [true]").space.configs())
    assert [(config.servers, config.waits) for config in configs] == [(1, False)]


def test_without_servers_there_is_one_config_and_not_one_that_waits_and_a_twin(tmp_path: Path) -> None:
    space = asynchronous(tmp_path, "servers: [0, 1], asynchronous: [false, true]").space
    assert sorted((config.servers, config.waits) for config in space.configs()) == [(0, True), (1, False), (1, True)]
    assert len(asynchronous(tmp_path, "servers: [0, 1], asynchronous: [true]").space) == 2


@pytest.mark.parametrize(
    ("search", "reads", "words"),
    [
        ("asynchronous: [true]", "asynchronous", "without parameter servers workers always wait for each other"),
        ("servers: [0], asynchronous: [true]", "asynchronous", "say search.servers too, such as [1]"),
        ("servers: [1], asynchronous: [on]", "asynchronous", "expected true or false, not 'on'"),
        ("servers: [1], asynchronous: [true]", "", "`reads: [asynchronous]` says that the script takes it"),
    ],
)
def test_an_axis_of_waiting_that_would_change_nothing_is_refused(
    tmp_path: Path, search: str, reads: str, words: str
) -> None:
    with pytest.raises(InvalidFile, match=re.escape(words)):
        asynchronous(tmp_path, search, reads)


@pytest.mark.parametrize("target", ["accuracy", "accuracy>0.9", "accuracy==0.9", "accuracy=91%", "=3", "accuracy=0,98"])
@pytest.mark.parametrize("before", ["", "target: {metric: accuracy, at_least: 0.9}"])
def test_a_target_that_cannot_be_read_is_answered_with_how_one_is_written(
    target: str, before: str, tmp_path: Path
) -> None:
    file = written(tmp_path, f"run: python train.py {{batch_size}}\n{before}")
    with pytest.raises(UsageError, match=r"expected a target such as accuracy=0\.98"):
        job_settings.load(file, {"target": target})


def test_a_target_in_the_words_of_the_output_is_answered_with_the_name_that_is_read(tmp_path: Path) -> None:
    pattern = r"pattern: 'Epoch: (?P<epoch>\d+) .* valid ppl (?P<val_perplexity>[\d.]+)'"
    file = written(tmp_path, f"run: python train.py {{batch_size}}\n{pattern}")
    with pytest.raises(UsageError, match="names val_perplexity, not valid ppl: ask for that"):
        job_settings.load(file, {"target": "valid ppl=9"})
