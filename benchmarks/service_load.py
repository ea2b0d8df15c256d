"""A queue of ten thousand jobs, a hundred submissions a second over HTTP, and a service that schedules meanwhile.

    python benchmarks/service_load.py [--jobs 10000] [--rate 100] [--seconds 20] [--policy joint] [--json]

One small job is measured by the service; its plan is then given to all that are queued, so that the policy has them to
decide about, and every slot is always taken by a real process that trains for a few seconds. Submissions are sent at
even times whether or not the one before was answered; a latency is from the time when it was to be sent to its answer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert, select

from cotune.cluster.api import tokens
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.identity import new_id
from cotune.run.environment import free_ports
from cotune.store import open_store
from cotune.store.schema import queue, queue_events

TRAIN = """
import sys, time
import cotune
for epoch in range(1, int(sys.argv[1]) + 1):
    time.sleep(0.5)
    if cotune.report(epoch=epoch, accuracy=epoch / 100):
        break
"""
CLIENTS = 32


def text(epochs: int = 8) -> str:
    """Return the job file of a small job."""
    return (
        f"name: small\nexamples: 100\nrun: {sys.executable} train.py {{epochs}} {{batch_size}}\nepochs: {epochs}\n"
        "search: {workers: [1], batch_size: [10]}\nbudget: {profile: 20s}\nteam: load\n"
    )


def served(folder: Path, store: str, *words: str) -> subprocess.Popen[bytes]:
    """Start the service."""
    command = [sys.executable, "-m", "cotune", "serve", "--store", store, "--slots", "2", *words]
    return subprocess.Popen(command, cwd=folder, stderr=(folder / "service.log").open("ab"))


def filled(store: str, folder: Path, jobs: int) -> None:
    """Measure one job, and put as many with the same plan into the queue."""
    with open_store(store) as opened:
        line = Queue(opened)
        first = line.submit(JobSnapshot.take(folder)[0])
        service = served(folder, store, "--drain")
        service.wait()
        done = line.get(first)
        if done.belief is None:
            sys.exit(f"the first job was not measured: {done.reason}")

        def write(connection: Any) -> None:
            row = connection.execute(select(queue).where(queue.c.id == first)).one()._asdict()
            same = {**row, "state": "waiting", "result": None, "folder": None, "reason": "planned", "fence": 0}
            del same["number"]
            rows = [{**same, "id": new_id(), "submitted": time.time()} for _ in range(jobs)]
            connection.execute(insert(queue), rows)
            event = {"at": time.time(), "state": "waiting", "fence": 0, "words": "planned"}
            connection.execute(insert(queue_events), [{**event, "job": row["id"]} for row in rows])

        opened.transact(write)


def submissions(port: int, token: str, rate: float, seconds: float) -> tuple[np.ndarray, dict[int, int], float]:
    """Send jobs at even times; return the seconds to each answer, the answers by status, and what it took."""
    body = json.dumps({"text": text(), "deadline": "2h"}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    own, statuses, lock = threading.local(), dict[int, int](), threading.Lock()
    begun = time.monotonic() + 1.0

    def send(number: int) -> float:
        at = begun + number / rate
        time.sleep(max(at - time.monotonic(), 0.0))
        if not hasattr(own, "line"):
            own.line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        own.line.request("POST", "/api/v1/jobs", body, headers)
        answer = own.line.getresponse()
        answer.read()
        with lock:
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
        return time.monotonic() - at

    with ThreadPoolExecutor(CLIENTS) as pool:
        took = np.array(list(pool.map(send, range(int(rate * seconds)))))
    return took, statuses, time.monotonic() - begun


def metrics(port: int) -> dict[str, float]:
    """Return the metrics of the service by name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def loaded(asked: argparse.Namespace) -> dict[str, Any]:
    """Fill a queue, put the load on it, and return the figures."""
    folder = Path(tempfile.mkdtemp(prefix="load-"))
    (folder / ".cotune").mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "cotune.yaml").write_text(text())
    store, held = str(folder / "team.db"), folder / "tokens"
    token = tokens.add(held, "load", "submit", "")
    filled(store, folder, asked.jobs)
    port, page = free_ports(2, set())
    words = ("--listen", str(port), "--tokens", str(held), "--folder", str(folder), "--metrics-port", str(page))
    begun = time.monotonic()
    service = served(folder, store, "--policy", asked.policy, *words)
    try:
        while not _starts(page):
            time.sleep(0.2)
        until_first = time.monotonic() - begun
        before = metrics(page)
        took, statuses, seconds = submissions(port, token, asked.rate, asked.seconds)
        after = metrics(page)
        listing = time.monotonic()
        command = [sys.executable, "-m", "cotune", "queue", "--store", store, "--json"]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        listing = time.monotonic() - listing
        count = after["cotune_decisions_total"] - before["cotune_decisions_total"]
        spent = after["cotune_decision_seconds_total"] - before["cotune_decision_seconds_total"]
        longest = after["cotune_decision_seconds_longest"]
        return {
            "jobs": len(listed["jobs"]),
            "submissions": {"asked_per_second": asked.rate, "per_second": len(took) / seconds, "answers": statuses},
            "latency_ms": {str(q): 1e3 * float(np.percentile(took, q)) for q in (50, 90, 99, 100)},
            "peak_mb": peak_bytes(service.pid) / 1e6,
            "decisions": count,
            "decision_ms": {"mean": 1e3 * spent / max(count, 1), "most": 1e3 * longest},
            "starts_meanwhile": after["cotune_starts_total"] - before["cotune_starts_total"],
            "seconds_to_first_start": until_first,
            "seconds_to_list": listing,
            "load_average": os.getloadavg()[0],
        }
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()


def _starts(page: int) -> bool:
    try:
        return metrics(page)['cotune_jobs{state="running"}'] > 0
    except OSError:
        return False


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=100.0, help="submissions a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--policy", default="joint")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = loaded(asked)
    print(json.dumps(found) if asked.json else "\n".join(f"{name:<24}{value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
