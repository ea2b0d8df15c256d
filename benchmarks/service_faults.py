"""Kill the service, its workers, its nodes and its database connection at random, and read what the jobs wrote.

    python benchmarks/service_faults.py [--kills 200] [--seeds 8] [--store postgresql://...] [--json]

Each seed hands in a few real jobs, and another for each that has ended until all its kills are made. Every start of a
job writes a line when it begins, one for every epoch, and one when its training is whole. The judge reads these lines
and nothing else, but for the states that the jobs ended in:

    lost        a job that neither trained to its end nor was given up with a reason
    run twice   an epoch trained by a start after a later one began, two whole trainings, or a number given out twice
    orphans     a process of the service that is still there after it has ended
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import FINAL, State
from cotune.store import open_store

MARK = "COTUNE_CAMPAIGN"
TRAIN = """
import json, os, sys, time
from pathlib import Path
import cotune

epochs, lines = int(sys.argv[1]), Path("lines.txt")
fence, whole = os.environ["COTUNE_FENCE"], epochs == {epochs}
kept = Path(os.environ["COTUNE_CHECKPOINT"]) / "epoch"
first = int(kept.read_text()) if os.environ.get("COTUNE_RESUME") and kept.exists() else 0

def tell(what, epoch):
    with lines.open("a") as file:
        file.write(json.dumps([what, int(fence), whole, epoch, time.monotonic()]) + "\\n")

tell("start", first)
cotune.report(epoch=first)
for epoch in range(first + 1, epochs + 1):
    time.sleep({pause})
    tell("epoch", epoch)
    draft = kept.with_suffix(".draft")
    draft.write_text(str(epoch))
    draft.replace(kept)
    if cotune.report(epoch=epoch, accuracy=epoch / epochs) and epoch < epochs:
        break
else:
    tell("end", epochs)
"""


@dataclass(frozen=True)
class Campaign:
    """How many jobs of how many epochs, and how often something is killed."""

    jobs: int = 4
    epochs: int = 25
    pause: float = 0.2  # seconds of an epoch
    between: tuple[float, float] = (0.5, 5.0)  # seconds from one kill to the next
    patience: float = 240.0  # seconds without a kill for what is left to end
    longest: float = 20.0  # seconds that a kill may take on average, before the rest are not made


@dataclass
class Verdict:
    """What a seed came to."""

    seed: int
    asked: int = 0  # kills
    kills: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    given_up: int = 0  # after too many kills in a row
    run_twice: int = 0
    orphans: int = 0
    words: list[str] = field(default_factory=list)


def campaign(seed: int, kills: int, settings: Campaign, folder: Path, url: str) -> Verdict:
    """Hand in jobs, kill at random, and judge by the lines that the jobs wrote."""
    rng, verdict, mark = random.Random(seed), Verdict(seed, kills), f"{folder.name}-{seed}"
    with open_store(url) as store:
        queue, ids = Queue(store), dict[str, Path]()
        _top_up(queue, ids, folder, settings)
        service = _service(folder, url, mark)
        try:
            _until(queue, lambda: any(job.workers or job.is_final for job in queue.jobs()), settings.patience)
            until = time.monotonic() + settings.longest * kills
            while sum(verdict.kills.values()) < kills and time.monotonic() < until:
                time.sleep(rng.uniform(*settings.between))
                _top_up(queue, ids, folder, settings)
                victim = rng.choices(("worker", "node", "service", "database"), (5, 2, 3, 1))[0]
                if victim == "service":
                    service.send_signal(signal.SIGKILL)
                    service.wait()
                    time.sleep(rng.uniform(0.0, 1.0))
                    service = _service(folder, url, mark)
                elif victim == "database":
                    _cut_off(url)
                elif not _kill_one(rng, service.pid, mark, leaf=victim == "worker"):
                    continue
                verdict.kills[victim] += 1
            _until(queue, lambda: _all_ended(queue), settings.patience)
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait()
        time.sleep(2.0)  # for what was told to end
        _judge(verdict, queue, ids, mark)
    return verdict


def _top_up(queue: Queue, ids: dict[str, Path], folder: Path, settings: Campaign) -> None:
    """Hand in jobs until as many as asked for have not ended."""
    for _ in range(settings.jobs - sum(not job.is_final for job in queue.jobs())):
        number = len(ids)
        ids[queue.submit(_job(folder, number, settings))] = folder / f"job{number}"


def _job(folder: Path, number: int, settings: Campaign) -> JobSnapshot:
    own = folder / f"job{number}"
    (own / ".cotune").mkdir(parents=True)
    script = TRAIN.replace("{epochs}", str(settings.epochs)).replace("{pause}", str(settings.pause))
    (own / "train.py").write_text(script)
    text = (
        f"name: job{number}\nexamples: 100\nrun: {sys.executable} train.py {{epochs}} {{batch_size}}\n"
        f"global_batch: 10\nepochs: {settings.epochs}\nsearch: {{workers: [1]}}\nbudget: {{profile: 20s}}\n"
    )
    (own / "cotune.yaml").write_text(text)
    return JobSnapshot.take(own)[0]


def _service(folder: Path, url: str, mark: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "cotune", "serve", "--slots", "4", "--profilers", "2"]
    env = {**os.environ, MARK: mark, "COTUNE_STORE": url}
    with (folder / "service.log").open("ab") as log:
        return subprocess.Popen(command, env=env, stderr=log, cwd=folder)


def _marked(mark: str) -> dict[int, int]:
    """Return the living processes of a campaign, each with its parent."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, ValueError):
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    found[int(entry.name)] = int(parent)
    return found


def _kill_one(rng: random.Random, service: int, mark: str, *, leaf: bool) -> bool:
    """Kill a worker, or what holds several (a leading process, the fork server, a measuring process)."""
    there = _marked(mark)
    parents = set(there.values())
    able = sorted(pid for pid in there if pid != service and (pid in parents) is not leaf)
    if not able:
        return False
    with suppress(ProcessLookupError):
        os.kill(rng.choice(able), signal.SIGKILL)
    return True


def _cut_off(url: str) -> None:
    """Take the database away for a moment: a lock that nobody can pass, or every connection ended."""
    if "://" not in url:
        held = sqlite3.connect(url, isolation_level=None)
        held.execute("BEGIN EXCLUSIVE")
        time.sleep(1.5)
        held.execute("ROLLBACK")
        held.close()
        return
    with open_store(url) as store, store.reading() as connection:
        from sqlalchemy import text

        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        connection.execute(text(f"{ended} AND pid <> pg_backend_pid()"))


def _all_ended(queue: Queue) -> bool:
    return all(job.is_final for job in queue.jobs())


def _until(queue: Queue, over: Callable[[], bool], patience: float) -> None:
    """Wait for something, as long as anything happens to a job within some patience."""
    seen, until = queue.last_event(), time.monotonic() + patience
    while not over() and time.monotonic() < until:
        time.sleep(0.3)
        if queue.last_event() > seen:
            seen, until = queue.last_event(), time.monotonic() + patience


def _judge(verdict: Verdict, queue: Queue, ids: dict[str, Path], mark: str) -> None:
    for id, folder in ids.items():
        job = queue.get(id)
        verdict.states[job.state.value] += 1
        text = (folder / "lines.txt").read_text() if (folder / "lines.txt").exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        ends = [line for line in lines if line[0] == "end" and line[2]]
        given_up = job.state is State.FAILED
        verdict.given_up += given_up
        if job.state not in FINAL or not (ends or given_up):
            verdict.lost += 1
        if not ends or given_up:
            verdict.words.append(f"{job.name} ({job.state}): {job.reason}")
        for words in _twice(lines, len(ends)):
            verdict.run_twice += 1
            verdict.words.append(f"{job.name} ({job.state}): {words}")
    left = _marked(mark)
    verdict.orphans = len(left)
    verdict.words += [f"process {pid} is left" for pid in left]


def _twice(lines: list[list[object]], ends: int) -> list[str]:
    """Return what was done twice: numbers of whole trainings, each of which has a line for its beginning."""
    found = [f"{ends} whole trainings"] if ends > 1 else []
    begun: dict[int, float] = {}
    for what, fence, _, epoch, at in lines:
        if not isinstance(fence, int) or not isinstance(at, float):
            continue
        if what == "start":
            if fence in begun:
                found.append(f"start {fence} was made twice")
            begun[fence] = at
        later = [other for other, when in begun.items() if other > fence and when < at]
        if later:
            found.append(f"start {fence} told {what} {epoch} after start {max(later)} had begun")
    return found


def main() -> None:
    """Run the seeds one after another and print their verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--store", help="URL of an empty PostgreSQL database, instead of SQLite files")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    left, verdicts = asked.kills, list[Verdict]()
    for seed in range(asked.seeds):
        folder = Path(tempfile.mkdtemp(prefix="faults-"))
        url = asked.store or str(folder / "store.db")
        verdict = campaign(seed, -(-left // (asked.seeds - seed)), Campaign(epochs=150), folder, url)
        left -= sum(verdict.kills.values())
        verdicts.append(verdict)
        if not asked.json:
            kills = ", ".join(f"{count} {what}" for what, count in sorted(verdict.kills.items()))
            print(
                f"seed {seed}: {kills}; lost {verdict.lost}, run twice {verdict.run_twice}, "
                f"orphans {verdict.orphans}; {dict(verdict.states)}",
                *verdict.words,
                sep="\n  ",
                flush=True,
            )
    totals = {name: sum(getattr(one, name) for one in verdicts) for name in ("lost", "run_twice", "orphans")}
    given_up = sum(one.given_up for one in verdicts)
    killed: Counter[str] = Counter()
    for one in verdicts:
        killed.update(one.kills)
    if asked.json:
        print(json.dumps({"kills": killed, **totals, "given_up": given_up, "seeds": [vars(one) for one in verdicts]}))
    else:
        print(f"{sum(killed.values())} kills ({dict(killed)}): {totals}, given up {given_up}")
    if sum(killed.values()) < asked.kills:
        print(f"{sum(killed.values())} of {asked.kills} kills were made in time", file=sys.stderr)
    sys.exit(any(totals.values()) or sum(killed.values()) < asked.kills)


if __name__ == "__main__":
    main()
