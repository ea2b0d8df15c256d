"""A job file with a plan in its store, for what is made from plans."""

from __future__ import annotations

from pathlib import Path

from cotune.jobfile import settings as job_settings
from cotune.store import open_store
from cotune.types import Config, Forecast, Goal, Plan, Quantity

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = f"""\
name: Digits_DDP
run: python {EXAMPLES}/minimal_ddp.py --batch-size {{batch_size}} --epochs {{epochs}}
examples: 1500
max_epochs: 9
"""


def planned(folder: Path, text: str = JOB, *, chosen: Config | None = None, max_cost: float | None = None) -> Path:
    """Write a job file, and a plan that takes one epoch of four allowed, in 100 to 200 seconds; return the folder."""
    (folder / ".cotune").mkdir(exist_ok=True)
    file = folder / job_settings.FILE_NAME
    file.write_text(text)
    seconds = Quantity(100.0, 150.0, 200.0, "measured", "s")
    forecast = Forecast(
        config=chosen or Config.data_parallel(32, 2),
        epochs=4,
        seconds=seconds,
        cost=Quantity(1.0, 1.5, 2.0, "measured", "USD"),
        epoch_seconds=seconds,
        accuracy=None,
        probability=0.95,
        epochs_needed=Quantity(0.5, 0.7, 0.9, "measured", "epochs"),
    )
    with open_store(None, folder) as kept:
        kept.save_plan(
            job_settings.load(file, {}).job, Plan(forecast, Goal(target=0.5, max_cost=max_cost), "the cheapest of 8")
        )
    return folder
