"""Small recordings written to disk, with round numbers."""

from __future__ import annotations

from pathlib import Path

JOB = "name: small\nexamples: 1200\nmetric: accuracy\nbetter: higher\ndevices: {t4: {per_node: 4}}\n"
TIMES = "workers,batch_size,epoch_seconds\n1,10,80\n1,40,20\n4,10,40\n4,40,10\n"
ACCURACY = "global_batch,epoch,accuracy\n10,1,0.2\n10,3,0.6\n160,1,0.1\n160,4,0.4\n"


def recording(folder: Path, *, job: str = JOB, times: str | None = TIMES, accuracy: str | None = ACCURACY) -> Path:
    """Write a recording; a table that is None is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.yaml").write_text(job)
    for name, text in (("epoch_time.csv", times), ("accuracy.csv", accuracy)):
        if text is not None:
            (folder / name).write_text(text)
    return folder
