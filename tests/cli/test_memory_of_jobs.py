"""Memory of real jobs, from the first probe to the plan; and jobs that know each other by their model."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import TRAINING, cotune, script
from cotune.display import Terminal
from cotune.jobfile.settings import loads
from cotune.project.project import Project
from cotune.store import open_store
from cotune.types import Config, Sample

GOAL = ("--target", "accuracy=0.8", "--deadline", "5m", "--max-epochs", "6")
JOB = ("--name", "digits", "--examples", "1440")
# A megabyte for each example of a batch, of addresses that end 300 MiB above what the interpreter has.
LIMITED = (
    "import resource\n"
    "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    "resource.setrlimit(resource.RLIMIT_AS, (used + 300 * 2**20,) * 2)\n"
    "activations = np.ones((batch, 2**17))"
)


def test_batches_that_will_not_fit_are_neither_tried_nor_planned(tmp_path: Path) -> None:
    script(tmp_path, setup=LIMITED)
    words = ("--workers", "1", "--batch-size", "16,48,120,480,1440")
    done = cotune(tmp_path, "profile", *JOB, *words, *GOAL, "--json", *TRAINING)
    assert done.code == 0, done.err
    assert {16, 48} <= {sample["config"]["batch_size"] for sample in done.json["samples"]} <= {16, 48, 120}
    assert not any(sample["failure"] for sample in done.json["samples"])
    assert all(0 < s["memory"]["peak_bytes"] < s["memory"]["limit_bytes"] for s in done.json["samples"])
    planned = cotune(tmp_path, "plan", *GOAL, *words, "--json")
    assert planned.code == 0, planned.err
    plan = planned.json["plan"]
    assert {one["config"]["batch_size"] for one in (plan, *planned.json["rivals"])} <= {16, 48, 120}
    assert any(note.startswith("batch 480 and above would need about") for note in plan["notes"])


FILE = """
name: {name}
run: python {name}.py {{batch_size}}
examples: {examples}
model: {folder}/net.py:Net
"""


def test_a_job_starts_from_what_another_of_the_same_model_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = tmp_path / "net.py"
    net.write_text("from torch import nn\nNet = nn.Linear(64, 10)\n")
    first, second = (
        loads(FILE.format(name=name, examples=examples, folder=tmp_path), {}, "test", tmp_path)
        for name, examples in (("first", 1000), ("second", 3000))
    )
    with open_store(str(tmp_path / "store.db")) as kept:
        config = Config.data_parallel(32, 1)
        kept.save(first.job, Sample(config, 1.0, 2.0, id="before"))
        old, new = (Project(settings=settings, store=kept, display=Terminal()) for settings in (first, second))
        assert new.evidence().history is None, "nobody has counted the model of the first"
        kept.save(old.settings.job, Sample(config, 1.0, 2.0, id="one"))
        found = new.evidence().history
        assert found is not None
        assert {sample.epoch_seconds for sample in found.blended(())} == {6.0}
        assert "of the same model by another command" in found.told[0]
        assert new.evidence(history=False).history is None
        net.unlink()
        old, new = (Project(settings=settings, store=kept, display=Terminal()) for settings in (first, second))
        assert old.settings.job.model is not None, "it was counted once"
        assert new.settings.job.model is None
    assert "cannot be counted, so its memory must be measured: no file" in capsys.readouterr().err
