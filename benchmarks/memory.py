"""How well is a worker's peak memory foretold? Real steps of ready-made models on the local engine's CPUs.

    python benchmarks/memory.py

Each model takes a few steps at doubling batches, each in a worker of its own. The two smallest batches give a
line (`predict/memory.py`), the smallest one alone a line with the counted slope; both are held against the
peaks of all larger batches.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from cotune.modelling.model_counter import counted_model
from cotune.modelling.workloads.named import find
from cotune.predict.memory import MemoryLaw
from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch
from cotune.space import Configs
from cotune.types import Config, Job, Sample

STEPS = """
import sys, torch, cotune
from cotune.workloads.named import find
workload = find(sys.argv[1])
model = workload.build().train()
optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
for step in range(3):
    optimiser.zero_grad()
    workload.loss(model, workload.batch(int(sys.argv[2]))).backward()
    optimiser.step()
    cotune.report(epoch=step + 1)
"""


def measured(engine: Local, folder: Path, model: str, batch: int) -> Sample:
    """Return the sample of a few real steps."""
    job = Job("steps", (sys.executable, "steps.py", model, str(batch)), folder=str(folder))
    config = Config.data_parallel(batch, 1)
    engine.start(Launch(f"{model}-{batch}", job, config, 1, folder / f"{model}-{batch}"))
    while not isinstance(event := engine.wait(60), Ended):
        pass
    assert event.outcome == "done", event.failure
    return Sample(config, 1.0, 1.0, peak_bytes=event.peak_bytes, limit_bytes=event.limit_bytes)


def main() -> None:
    """Print the peak of every model and batch, beside what was foretold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", default="lenet5,transformer_block,alexnet,resnet50")
    parser.add_argument("--batches", default="4,8,16,32")
    asked = parser.parse_args()
    batches = [int(batch) for batch in asked.batches.split(",")]
    engine = Local()
    print("| model | batch | measured MiB | two batches | margin | counted slope | margin |\n" + "| --- " * 7 + "|")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "steps.py").write_text(STEPS)
        for model in asked.models.split(","):
            samples = [measured(engine, folder, model, batch) for batch in batches]
            two = MemoryLaw(tuple(samples[:2]))
            one = MemoryLaw(tuple(samples[:1]), counted_model(find(model)))
            for sample in samples[2:]:
                peak = sample.peak_bytes or 0
                cells = [f"{model} | {sample.config.batch_size} | {peak / 2**20:.0f}"]
                for law in (two, one):
                    ((_, line),) = law.lines().items()
                    foretold = line.fixed + line.slope * sample.config.batch_size
                    most = float(law.most_bytes(Configs.of([sample.config]))[0])
                    cells += [f"{foretold / peak - 1:+.1%}", f"{most / peak - 1:+.1%}"]
                print(f"| {' | '.join(cells)} |")
    engine.close()


if __name__ == "__main__":
    main()
