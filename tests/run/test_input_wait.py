"""What a script's loop waits for its data is measured without an edit, also on a disk that is emulated."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cotune.errors import UsageError
from cotune.run.engines.local import Local

from launching import Make, player  # isort: skip

SCRIPT = """
    import torch, cotune
    from torch.utils.data import DataLoader, TensorDataset
    model = torch.nn.Linear(1000, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    cotune.report(epoch=0)
    for (batch,) in DataLoader(TensorDataset(torch.zeros(160, 1000)), batch_size=16):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    cotune.report(epoch=1, accuracy=0.5)
"""


def waited(folder: Path) -> float:
    lines = [json.loads(line) for line in (folder / "rank-0.jsonl").read_text().splitlines()]
    return float(lines[-1]["terms"]["input"])


def test_a_slow_disk_is_waited_for_and_told(launch: Make) -> None:
    """160 examples of 4,000 bytes are 5.12 Mbit: a disk of 10 Mbit/s takes 0.512 s for them."""
    engine = Local(nodes=1, cores=1.0, disk="10mbit", term_seconds=1.0)
    try:
        slow = player(engine, launch)(SCRIPT, name="slow", command=(sys.executable, "train.py"))
    finally:
        engine.close()
    assert slow.ended.outcome == "done", slow.ended
    assert waited(slow.folder) >= 0.512


def test_a_disk_belongs_to_emulated_nodes() -> None:
    with pytest.raises(UsageError, match="a disk or devices belong to emulated nodes"):
        Local(disk="10mbit")
