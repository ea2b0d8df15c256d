"""Measured steps of models go into a store and come out the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cotune.store import Fingerprint, ModelStep, open_store

STEP = ModelStep(
    "resnet18",
    "a100",
    "bf16",
    1,
    64,
    0.0123,
    0.01,
    0.02,
    Fingerprint(1e12, 3e10, 244, 11_173_962, (("convolution", 0.6), ("elementwise", 0.4))),
    "2026-01-01T00:00:00+00:00",
)


def test_steps_come_back_by_device_and_precision(tmp_path: Path) -> None:
    other = replace(STEP, device="t4", seconds=0.3)
    with open_store(str(tmp_path / "store.db")) as kept:
        for step in (STEP, other, replace(STEP, batch_size=128)):
            kept.save_model_step(step)
    with open_store(str(tmp_path / "store.db")) as kept:
        assert kept.steps_of_models("a100", "bf16") == (STEP, replace(STEP, batch_size=128))
        assert kept.steps_of_models("t4", "bf16") == (other,)
        assert kept.steps_of_models("a100", "fp32") == ()
