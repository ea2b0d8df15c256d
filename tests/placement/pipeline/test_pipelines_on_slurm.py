"""A pipeline as a heterogeneous Slurm job: a component for each kind of node, of which a unit is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cotune.placement.elastic import trained
from cotune.placement.profiles import TypeEntry
from cotune.placement.staged import TRAIN, Staged, engines
from cotune.run.engines.slurm import Slurm
from cotune.types import Stage
from piped import WATCHED, Piped, watched_in
from slurm_daemons import daemons, missing

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"needs Slurm: no {', '.join(missing())}"),
    pytest.mark.xdist_group("slurm"),
]
KINDS = {
    name: TypeEntry(name=name, price_per_hour=0.0, device="cpu", slurm=(f"--constraint={name}",))
    for name in ("big", "small", "tiny")
}


def test_three_kinds_of_nodes_learn_as_one_process_although_a_unit_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipe: Callable[..., Piped]
) -> None:
    watched_in(tmp_path, monkeypatch)
    alone = pipe([("cpu", 1, 0, 4)], *WATCHED).losses
    (tmp_path / "deed").write_text("die")
    staged = Staged((Stage("big", 2, 0, 0), Stage("small", 1, 1, 2), Stage("tiny", 1, 3, 4)), KINDS)
    with daemons("big", "small", "tiny") as env:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        slurm = Slurm(devices={name: kind.slurm or () for name, kind in KINDS.items()}, ask_seconds=0.5)
        with engines(slurm) as there:
            found = trained(there, staged, (*TRAIN, *WATCHED, "--checkpoint-every", "4"), tmp_path / "run")
    script = (tmp_path / "run" / "slurm.sh").read_text()
    assert script.count("#SBATCH hetjob") == 2
    assert "--constraint=tiny" in script
    assert found.starts == 2
    assert found.result["losses"] == pytest.approx(alone, rel=1e-4)
