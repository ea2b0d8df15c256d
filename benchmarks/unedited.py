"""Scripts of four frameworks that nobody has edited: from a folder with the script alone to a plan, and to the target.

    python benchmarks/unedited.py                       # one after another, about 10 minutes on two free cores
    python benchmarks/unedited.py --only nanogpt,hf_trainer --budget 30s --out FOLDER

Only the command line is used, as a newcomer would: `init`, `profile`, `plan`, `run`, target and deadline as their
flags, nothing changed in the job file in between. It wants an environment with the frameworks (`cotune[trl]`,
`cotune[lightning]`), whose Python runs it, and prints a table of wall-clock seconds, failing verbs with their words.
On a machine with a GPU the scripts train there, as without cotune. What each verb printed stays in FOLDER/SCRIPT.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples" / "frameworks"
SOURCE = Path(__file__).parents[1] / "src"
ASKED_SECONDS = 300  # from the clone to the plan


@dataclass(frozen=True)
class Unedited:
    """A script, what lies beside it, and the goal."""

    name: str
    target: str
    deadline: str = "5m"
    beside: tuple[str, ...] = ()


SCRIPTS = {
    script.name: script
    for script in (
        Unedited("nanogpt", "val_loss=2.2", beside=("configurator.py",)),
        Unedited("hf_trainer", "eval_loss=2.45"),
        Unedited("trl_sft", "eval_loss=3.4"),
        Unedited("lightning_net", "val_acc=0.9"),
    )
}


def main() -> None:
    """Try each script, and print a table."""
    parser = argparse.ArgumentParser(description="Time unedited scripts from init to their target.")
    parser.add_argument("--only", default=",".join(SCRIPTS), help="names between commas")
    parser.add_argument("--budget", help="what profile may take")
    parser.add_argument("--out", type=Path, help="where the folders of the jobs stay")
    asked = parser.parse_args()
    print("| script | target | init | profile | plan | to the plan | plan | forecast | run | outcome |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.only.split(","):
            row = tried(SCRIPTS[name], (asked.out or Path(folder)) / name, asked.budget)
            print(f"| {' | '.join(row)} |", flush=True)


def tried(script: Unedited, folder: Path, budget: str | None = None) -> list[str]:
    """Return a row of the table: the seconds of each verb, the plan and what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (f"{script.name}.py", *script.beside):
        shutil.copy(EXAMPLES / file, folder)
    goal = ("--target", script.target, "--deadline", script.deadline)
    init, first = cotune(folder, "init", "--json", "--", "python", f"{script.name}.py")
    within = () if budget is None else ("--budget", budget)
    profile, _ = cotune(folder, "profile", "--target", script.target, *within, "--json")
    plan, planned = cotune(folder, "plan", *goal, "--json")
    if "plan" not in planned:
        return [script.name, script.target, *(f"{one:.0f} s" for one in (init, profile, plan)), _why(first, planned)]
    run, ran = cotune(folder, "run", *goal, "--json")
    chosen, before = planned["plan"], init + profile + plan
    return [
        f"`{script.name}.py`",
        script.target,
        *(f"{one:.0f} s" for one in (init, profile, plan)),
        f"{before:.0f} s{'' if before < ASKED_SECONDS else ', too long'}",
        _config(chosen["config"]),
        "{low:.0f}..{high:.0f} s".format(**chosen["forecast"]["seconds"]),
        f"{run:.0f} s",
        _outcome(ran),
    ]


def _config(config: Mapping[str, Any]) -> str:
    return f"{config['workers']} x {config['batch_size']}"


def _outcome(ran: Mapping[str, Any]) -> str:
    run = ran.get("run")
    if run is None:
        return str(ran["stderr"])
    return f"{'met' if ran['met'] else 'missed'} after {run['seconds']:.0f} s, {run['accuracy']:.3f}"


def _why(*documents: Mapping[str, Any]) -> str:
    return "; ".join(str(one["stderr"]) for one in documents if one.get("stderr"))


def cotune(folder: Path, *words: str) -> tuple[float, dict[str, Any]]:
    """Return the wall-clock seconds of a verb, and what it printed as JSON, or its last words."""
    bare = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    source = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "PATH": bare, "PYTHONPATH": source}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "cotune", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    took = time.monotonic() - begun
    (folder / f"{words[0]}.out").write_text(done.stdout)
    (folder / f"{words[0]}.err").write_text(done.stderr)
    print(f"{folder.name}: {words[0]} exit {done.returncode} in {took:.1f} s", file=sys.stderr, flush=True)
    last = done.stderr.strip().splitlines()[-1:] or [""]
    return took, json.loads(done.stdout) if done.stdout.startswith("{") else {"stderr": last[0]}


if __name__ == "__main__":
    main()
