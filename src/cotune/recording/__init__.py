"""Recordings: measured truth in a folder, read, written and replayed.

    job.yaml         name, examples, metric, better, devices
    epoch_time.csv   workers,batch_size,epoch_seconds  [device,nodes,repeat, named axes]
    accuracy.csv     global_batch,epoch,accuracy       [seed,workers]

Only probes may look at the tables: whoever plans goes through the recorded engine. The
benchmark alone also asks for the truth.
"""

from cotune.recording.reader import read
from cotune.recording.truth import PROBE_STEPS, RecordedCurve, Recording, least_epochs
from cotune.recording.writer import AccuracyRow, TimeRow, write

__all__ = ["PROBE_STEPS", "AccuracyRow", "RecordedCurve", "Recording", "TimeRow", "least_epochs", "read", "write"]
