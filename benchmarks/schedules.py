"""Learning rates that fall to the end of a run: are the epochs to a target forecast, and the right length told?

    python benchmarks/schedules.py                          a cosine script in numpy
    python benchmarks/schedules.py --huggingface            a script of transformers' Trainer, linear decay by default

For each of three targets the job is profiled, planned and run from scratch through the command line. The forecast of
the epochs holds when the measured ones lie inside its 80 % interval, or within 15 % of its median. The job files say
nothing of a schedule: it is read from the script or its command.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STRANGERS = Path(__file__).parent.absolute() / "strangers"
WITHIN = 0.15
HEAD = ("target", "batch", "length told", "epochs forecast", "epochs measured", "off", "holds", "P(met)", "met")
COSINE = """\
name: cosine
run: {python} {script} --batch-size {{batch_size}} --epochs {{epochs}} --schedule cosine --seed {{seed}}
examples: 8000
pattern: 'epoch (?P<epoch>[\\d.]+) val_acc (?P<val_acc>[\\d.]+)'
better: higher
max_epochs: 30
search: {{workers: 1, batch_size: [16, 32, 64]}}
budget: {{profile: 90s}}
"""
TRAINER = """\
name: trainer
run: {python} {script}
examples: 4000
max_epochs: 12
search: {{workers: 1, batch_size: [16, 32]}}
budget: {{profile: 4m}}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One target, as forecast and as measured."""

    target: str
    batch: int
    told: float
    low: float
    mid: float
    high: float
    epochs: float
    probability: float
    met: bool

    @property
    def off(self) -> float:
        return self.epochs / self.mid - 1

    @property
    def holds(self) -> bool:
        return self.low <= self.epochs <= self.high or abs(self.off) <= WITHIN


def main() -> int:
    """Ask for the targets one after another, print the table, and say how many forecasts held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--huggingface", action="store_true", help="needs transformers in this Python")
    parser.add_argument("--targets", nargs="+")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="schedules-"))
    (folder / ".cotune").mkdir()
    job, script = (TRAINER, "trainer.py") if asked.huggingface else (COSINE, "tiny.py")
    usual = ("eval_loss<=0.48", "eval_loss<=0.44", "eval_loss<=0.42") if asked.huggingface else _above(0.80, 0.83, 0.85)
    (folder / "cotune.yaml").write_text(job.format(python=sys.executable, script=STRANGERS / script))
    rows = []
    for target in asked.targets or usual:
        rows.append(_goal(folder, target))
        print(_line(rows[-1]), file=sys.stderr, flush=True)
    print("| " + " | ".join(HEAD) + " |\n|" + " --- |" * len(HEAD))
    print("\n".join(map(_line, rows)))
    held = sum(row.holds for row in rows)
    print(f"\nepochs to the target held in {held} of {len(rows)}; {sum(row.met for row in rows)} targets met")
    return 0 if held == len(rows) else 6


def _above(*levels: float) -> tuple[str, ...]:
    return tuple(f"val_acc>={level}" for level in levels)


def _goal(folder: Path, target: str) -> Row:
    """Return a target as planned and as run from scratch."""
    _cotune(folder, "profile", "--target", target)
    plan = _cotune(folder, "plan", "--target", target)["plan"]
    ran = _cotune(folder, "run", "--from-scratch", "--seed", "77")
    needed, config = plan["forecast"]["epochs"], plan["config"]
    ends = (needed["low"], needed["mid"], needed["high"])
    told, epochs = plan["epochs"], ran["run"]["epochs"]
    return Row(target, config["batch_size"], told, *ends, epochs, plan["probability"], bool(ran.get("met")))


def _line(row: Row) -> str:
    cells = (
        row.target, str(row.batch), f"{row.told:g}", f"{row.mid:.3g} ({row.low:.3g}..{row.high:.3g})",
        f"{row.epochs:.3g}", f"{row.off:+.0%}", "yes" if row.holds else "no", f"{row.probability:.2f}",
        "yes" if row.met else "no",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _cotune(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "cotune", *words, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 6):
        raise SystemExit(f"cotune {' '.join(words)}: {done.stderr.strip()}; {folder}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


if __name__ == "__main__":
    sys.exit(main())
