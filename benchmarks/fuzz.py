"""Broken and hostile input for everything that cotune reads: no traceback, no hang, whatever it is.

    python benchmarks/fuzz.py [cases] [seed]          2,100 cases by default, some minutes on one core

Job files, recordings, traces, profiles, logs, rows of a store and flags: sound ones, with pieces cut
out, doubled, flipped or replaced by what has broken programs before. A case passes when it is read, or
refused by an error of ours with its exit code. Anything else is a traceback; more than 20 s of CPU is a
hang. Failures are printed with what makes them again: `python benchmarks/fuzz.py KIND:NUMBER seed`.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cotune.errors import CotuneError

CPU_SECONDS = 20.0
CODES = {None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 130}

HOSTILE = (
    "", " ", "0", "-1", "1", "nan", "inf", "-inf", "1e308", "-1e308", "1e999", "99999999999999999999", "1e-320", "0x10",
    "null", "~", "true", "[]", "{}", "[1", "@", "*a", "&a *a", "&a [*a]", "[[[[[[1]]]]]]", "[" * 3000, "{a: " * 3000,
    "1..8", "8..1", "1..99999999999", "1,2,,3", ",", "=", "==", "(", ")", "()", "a(b=)", "{batch_size}", "{", "}", "%s",
    "\x00", "\x1b[2J\x1b[31m", "\r\n", "\n", "\t", "\u202e", "\u2028", "\ufeff", "\ud800", "\\ud800", "a" * 20_000,
    "'", '"', "\\", "`id`", "$(id)", "; id", "../../etc/passwd", "/dev/null", "/", "-", "--", "--json", "2026-13-45",
    "1:60:99", "12:30", "!!python/object/apply:os.system [id]", "<<: *x", "? a", "---\n---", "1_000", "0b2", "٣", "½",
    "(a+)+b", "(?P<epoch>(\\d+)+)x", "(?P<epoch>.*)(?P<accuracy>.*)", "las(thresholds=3250:7200)",
    "optimus(interval=-1)",
)  # fmt: skip

JOB = """\
name: lenet5-mnist
run: python train.py --batch-size {batch_size} --epochs {epochs} --lr {lr}
examples: 60000
target: {metric: accuracy, at_least: 0.985}
deadline: 2h
max_epochs: 30
search: {workers: 1..8, batch_size: [16, 32, 64]}
lr: {at: 0.01, global_batch: 64, rule: linear}
budget: {profile: 5m, max_cost: 20}
devices: {t4: {price_per_hour: 0.35, count: 8, per_node: 4}}
env: {OMP: "1", NAME: two words}
pattern: epoch (?P<epoch>\\d+) accuracy (?P<accuracy>\\S+)
engine: {local: {nodes: 4, cores: 1}}
"""
RECORDED = {
    "job.yaml": "name: small\nexamples: 1000\nmetric: accuracy\nbetter: higher\ndevices: {t4: {price_per_hour: 1.0}}\n",
    "epoch_time.csv": "workers,batch_size,epoch_seconds\n1,16,100\n1,32,90\n2,16,60\n2,32,50\n4,16,40\n4,32,30\n",
    "accuracy.csv": "global_batch,epoch,accuracy\n"
    + "".join(f"{b},{e},{1 - 0.5 / e - b / 1000}\n" for b in (16, 32, 64, 128) for e in range(1, 9)),
}
TRACES = (
    "job_id,submit_s,gpus,duration_s\na,0,1,60\nb,5,2,120\nc,7,4,30\nd,9,1,inf\n",
    "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n1,1,0,100,resnet50,60,1\n2,2,3,50,vgg16,90,1\n",
    "name,time,application,num_replicas,requested_replicas,batch_size\ncifar10-0,0,cifar10,1,1,128\n",
    "JobID|Submit|ElapsedRaw|State|AllocTRES|User\n1|2026-01-01T00:00:00|60|COMPLETED|gres/gpu=2|me\n",
)
PROFILE = {
    "types": [
        {"name": "cpu", "price_per_hour": 0.04, "limit": 8},
        {"name": "v100", "price_per_hour": 2.42, "limit": 4},
    ],
    "batch": 4096,
    "layers": [
        {"name": "embedding", "compute": [0.5, 0.9], "compute_parallel": [0.9, 0.8], "cut_before": [0.01, 0.02]},
        {"name": "fc", "compute": {"cpu": 1.5, "v100": 0.1}, "compute_parallel": [1, 1], "weight_bytes": 1000000},
    ],
}
STATE = {
    "train_batch_size": 8,
    "log_history": [
        {"epoch": 1.0, "step": 10, "loss": 0.5},
        {"epoch": 1.0, "step": 10, "eval_accuracy": 0.8, "eval_runtime": 1.5},
        {"train_runtime": 20.0, "epoch": 1.0, "step": 10},
    ],
}
METRICS = "epoch,step,val_acc,train_loss\n0,10,0.5,\n0,20,,1.2\n1,30,0.7,0.9\n"
LINES = (
    '{"at": 1.5, "epoch": 1, "accuracy": 0.5, "terms": {"compute": 0.1}, "metrics": {"loss": 2}}',
    "epoch 3 accuracy 0.5",
)


@dataclass(frozen=True)
class Case:
    """One input: what it is, its number, and the call that reads it."""

    kind: str
    number: int
    call: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}"


class Hang(BaseException):
    """More CPU than any of these inputs deserves."""


def broken(text: str, rng: random.Random) -> str:
    """Return a text with one to four pieces changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        words = [match.span() for match in re.finditer(r"[\w.+-]+|[^\w\s]", text)] or [(0, len(text))]
        begin, end = rng.choice(words)
        match rng.randrange(7):
            case 0 | 1 | 2:
                text = text[:begin] + rng.choice(HOSTILE) + text[end:]
            case 3:
                text = text[:begin] + text[end:]
            case 4:
                text = text[:end] + text[begin:]
            case 5:
                place = rng.randrange(len(text) + 1)
                text = text[:place] + rng.choice(HOSTILE) + text[place:]
            case _:
                place = rng.randrange(len(text) + 1)
                text = (
                    text[:place]
                    + chr(rng.choice((0, 9, 10, 13, 27, 34, 39, 44, 58, 92, 127, 0x85, 0x2028)))
                    + text[place:]
                )
    return text


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def job_files(rng: random.Random, folder: Path) -> Callable[[], object]:
    from cotune.jobfile import settings
    from cotune.jobfile.names import require_exportable

    text = broken(JOB, rng)

    def read() -> None:
        found = settings.loads(text, {}, "cotune.yaml", folder)
        require_exportable(found.job)
        found.job.fingerprint.encode()

    return read


def recordings(rng: random.Random, folder: Path) -> Callable[[], object]:
    from cotune.recording.reader import read

    name = rng.choice(list(RECORDED))
    for other, text in RECORDED.items():
        written(folder / other, broken(text, rng) if other == name else text)
    return lambda: read(folder)


def traces(rng: random.Random, folder: Path) -> Callable[[], object]:
    text = broken(rng.choice(TRACES), rng)
    path = written(folder / "trace.csv", text)
    if rng.random() < 0.1:
        path.write_bytes(gzip.compress(path.read_bytes())[: rng.choice((10, 40, None))])
    flags = [["--skip-bad"], []][rng.randrange(2)]
    return lambda: command(folder, "simulate", str(path), "--cluster", "8", "--policy", "fifo,srtf", *flags)


def profiles(rng: random.Random, folder: Path) -> Callable[[], object]:
    path = written(folder / "profile.json", broken(json.dumps(PROFILE), rng))
    return lambda: command(
        folder, "place", str(path), "--throughput", "100", "--search", "greedy", "--time-limit", "1s"
    )


def logs(rng: random.Random, folder: Path) -> Callable[[], object]:
    from cotune.interop.logged import logs_of
    from cotune.run.tail import from_log, from_report

    pattern = re.compile(r"epoch (?P<epoch>\S+) accuracy (?P<accuracy>\S+)")
    line = broken(LINES[0], rng)
    match rng.randrange(4):
        case 0:
            written(folder / "trainer_state.json", broken(json.dumps(STATE), rng))
            return lambda: logs_of("huggingface", folder)
        case 1:
            written(folder / "metrics.csv", broken(METRICS, rng))
            written(folder / "hparams.yaml", broken("batch_size: 32\nlr: 0.1\n", rng))
            return lambda: logs_of("lightning", folder)
        case 2:
            return lambda: from_report("x", line)
    told = broken(LINES[1], rng)

    def hear() -> None:
        with contextlib.suppress(ValueError):  # told as a spoiled start
            from_log("x", told, pattern, 0.0, "accuracy")

    return hear


def rows(rng: random.Random, folder: Path) -> Callable[[], object]:
    from cotune.store import open_store, views

    path = _stocked(folder)
    with contextlib.closing(sqlite3.connect(path)) as database:
        table = rng.choice(("samples", "samples", "jobs", "evaluations", "plans"))
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        given: list[object] = [*HOSTILE, None, -1, 2**63 - 1, 1e308, b"\xff\xfe", '{"a": 1}', "[1]", '"x"']
        value = rng.choice(given)
        if isinstance(value, str):
            value = value.encode("utf-8", "replace").decode()
        with contextlib.suppress(sqlite3.IntegrityError), database:
            database.execute(f"UPDATE {table} SET {rng.choice(columns)} = ?", (value,))

    def read() -> None:
        with open_store(str(path)) as store:
            for known in store.jobs():
                store.samples(known)
                store.plans(known)
            views.job_summaries(store)
            views.sample_page(store)
            views.growing(store)
        command(folder, "samples", "--store", str(path))

    return read


SCRIPT = ("python", "t.py", "{batch_size}")
FLAGS = (
    ("plan", "--recording", "DIR", "--target", "accuracy=0.8", "--deadline", "1h", "--max-samples", "4"),
    ("predict", "--recording", "DIR", "-w", "1,2", "-b", "16", "--all-samples"),
    ("predict", "--recording", "DIR", "-w", "2", "-b", "16,32", "--all-samples", "--predictor", "isotonic(bins=4)"),
    ("run", "--recording", "DIR", "-w", "2", "-b", "16", "--epochs", "3", "--seed", "1"),
    ("plan", "--recording", "DIR", "--target", "accuracy=0.7", "--deadline", "2h", "--confidence", "0.8"),
    ("simulate", "TRACE", "--cluster", "4x2", "--policy", "las(thresholds=[3250,7200])", "--restart", "5"),
    ("simulate", "TRACE", "--cluster", "8", "--policy", "optimus(interval=60),fair_share(quota=0.5)", "--noise", "0.1"),
    ("simulate", "TRACE", "--cluster", "8", "--policy", "gittins(quantum=10)", "--why", "b", "--at", "6"),
    ("simulate", "TRACE", "--cluster", "8", "--policy", "edf", "--deadlines", "0.5,1.5", "--only", "job_id=a"),
    ("run", "-w", "2", "-b", "16", "--servers", "1", "--seed", "3", "--restarts", "2", "--recording", "DIR"),
    ("place", "PROFILE", "--throughput", "100", "--search", "exact,greedy", "--epochs", "2", "--time-limit", "1s"),
    ("samples", "--job", "small", "--store", "STORE"),
    ("export", "torchrun", "-w", "2", "-b", "32", "--epochs", "2", "--limit", "1h", "--", *SCRIPT),
    ("export", "slurm", "-w", "8", "-b", "32", "--per-node", "4", "--axis", "p=1", "--", *SCRIPT, "{p}"),
    ("init", "--name", "x", "--examples", "10", "--force", "--", *SCRIPT),
    ("import", "huggingface", "LOGS", "-w", "2", "-b", "8", "--metric", "eval_accuracy", "--examples", "100"),
    ("prices", "list", "a100"),
    ("algorithms", "--json"),
)  # fmt: skip


def flags(rng: random.Random, folder: Path) -> Callable[[], object]:
    for name, text in RECORDED.items():
        written(folder / name, text)
    places = {
        "DIR": str(folder),
        "TRACE": str(written(folder / "t.csv", TRACES[0])),
        "PROFILE": str(written(folder / "p.json", json.dumps(PROFILE))),
        "LOGS": str(written(folder / "trainer_state.json", json.dumps(STATE))),
        "STORE": str(folder / "store.db"),
    }
    words = [places.get(word, word) for word in rng.choice(FLAGS)]
    changed = rng.randrange(1, len(words))
    words[changed] = broken(words[changed], rng) if rng.random() < 0.5 else rng.choice(HOSTILE)
    if words[0] in ("run", "plan") and "--recording" not in words:
        words.append("--recording=" + str(folder))  # nothing may really start
    return lambda: command(folder, *(word.replace("\0", "") for word in words))


KINDS: dict[str, Callable[[random.Random, Path], Callable[[], object]]] = {
    "job file": job_files,
    "recording": recordings,
    "trace": traces,
    "profile": profiles,
    "log": logs,
    "row": rows,
    "flags": flags,
}


def command(folder: Path, *words: str) -> None:
    """Run the command line here; an exit code of ours is an answer."""
    from cotune.cli.main import main

    before, argv = Path.cwd(), sys.argv
    out, err = io.StringIO(), io.StringIO()
    os.chdir(folder)
    sys.argv = ["cotune", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as leaving:
        if leaving.code not in CODES or "Traceback" in err.getvalue():
            raise RuntimeError(f"exit code {leaving.code!r}: {err.getvalue()[-300:]}") from None
    finally:
        os.chdir(before)
        sys.argv = argv
    shown = err.getvalue() + ("" if words[0] == "export" else out.getvalue())  # a script keeps its words
    if re.search(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f\x9b]|\x1b(?!\[[\d;]*m)", shown):
        raise RuntimeError(f"control characters in the output: {shown[-200:]!r}")


def _stocked(folder: Path) -> Path:
    """Return a store with a job, three samples and a plan; copied from one that is made once."""
    global _STORE  # noqa: PLW0603  # made once a process
    if _STORE is None:
        with tempfile.TemporaryDirectory() as made:
            for name, text in RECORDED.items():
                written(Path(made) / name, text)
            path = Path(made) / "store.db"
            goal = ("--target", "accuracy=0.7", "--deadline", "1h", "--max-samples", "3")
            command(Path(made), "plan", "--recording", made, "--store", str(path), *goal)
            command(
                Path(made), "run", "--recording", made, "--store", str(path), "-w", "2", "-b", "16", "--epochs", "2"
            )
            with contextlib.closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            _STORE = path.read_bytes()
    copy = folder / "store.db"
    copy.write_bytes(_STORE)
    return copy


_STORE: bytes | None = None


def case(kind: str, number: int, seed: int, folder: Path) -> Case:
    """Return a case, its files written to the folder; the same again for the same kind, number and seed."""
    rng = random.Random(f"{seed}/{kind}/{number}")
    return Case(kind, number, KINDS[kind](rng, folder))


def verdict(tried: Case) -> str | None:
    """Return how a case breaks the rules, or None if it does not."""

    def stop(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried.call()
    except CotuneError:
        return None
    except Hang:
        return f"{tried}: hang, more than {CPU_SECONDS:g} s of CPU\n" + "".join(traceback.format_exc()[-800:])
    except BaseException:  # whatever it is, it is what is looked for
        return f"{tried}: traceback\n" + traceback.format_exc()[-1500:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def campaign(count: int, seed: int) -> Iterator[tuple[str, str | None]]:
    """Yield the kind and the verdict of every case, equally many of each kind."""
    os.environ |= {"COTUNE_STORE": "", "XDG_DATA_HOME": tempfile.mkdtemp(prefix="fuzz-")}
    for number in range(-(-count // len(KINDS))):
        for kind in KINDS:
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                yield kind, verdict(case(kind, number, seed, Path(folder)))


def main() -> None:
    words = sys.argv[1:]
    seed = int(words[1]) if len(words) > 1 else 0
    if words and ":" in words[0]:
        kind, _, number = words[0].rpartition(":")
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            print(verdict(case(kind, int(number), seed, Path(folder))) or "passes")
        return
    count = int(words[0]) if words else 2100
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for kind, problem in campaign(count, seed):
        tried[kind] += 1
        failed[kind] += problem is not None
        if problem:
            print(problem, file=sys.stderr)
    for kind in KINDS:
        print(f"{kind:10} {tried[kind]:5} cases  {failed[kind]:3} tracebacks or hangs")
    print(f"{'all':10} {tried.total():5} cases  {failed.total():3} tracebacks or hangs")
    sys.exit(bool(failed.total()))


if __name__ == "__main__":
    main()
