"""`cotune doctor`: what this machine offers, and what would be missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass

import typer

from cotune.cli.options import Json, StoreUrl, open_store
from cotune.cli.output import emit_json, table
from cotune.devices.present import described_gpus, visible_gpus
from cotune.errors import CotuneError
from cotune.run.local.keeper import can_isolate

PACKAGES = {  # module: its extra, its distribution, what it is for
    "torch": ("torch", "torch", "training with torch, and models before they run"),
    "sklearn": ("workloads", "scikit-learn", "the ready-made digits"),
    "optuna": ("optuna", "optuna", "the Bayesian rivals"),
    "ray": ("ray", "ray", "the engine ray"),
    "plotly": ("plots", "plotly", "pictures in reports"),
    "fastapi": ("dashboard", "fastapi", "the dashboard"),
    "psycopg": ("postgres", "psycopg", "a team's PostgreSQL store"),
}
PROGRAMS = {
    "sbatch": "the engine slurm: run cotune on a login node",
    "ip": "emulated nodes with real links: apt install iproute2",
}
BUSY = 0.5  # runnable processes of others for each core, from which measured seconds are no longer this job's own


@dataclass(frozen=True, slots=True)
class Check:
    """What one thing is like: good, absent (None) or a problem, with the exit code of verbs that meet it."""

    name: str
    ok: bool | None
    detail: str
    exit_code: int = 0


def doctor(store: StoreUrl = None, json: Json = False) -> None:
    """Check this machine: its cores, GPUs and packages, the store. And whether workers can be isolated."""
    checks = [
        Check("python", True, f"{sys.version.split()[0]} at {sys.executable}"),
        _cores(),
        *_gpus(),
        *(_package(name) for name in PACKAGES),
        *(_program(name) for name in PROGRAMS),
        _isolation(),
        _store(store),
    ]
    problems = [check for check in checks if check.ok is False]
    if json:
        listed = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks]
        emit_json("doctor", {"healthy": not problems, "checks": listed})
    else:
        words = {True: "ok", None: "absent", False: "problem"}
        table(("check", "state", "detail"), [(check.name, words[check.ok], check.detail) for check in checks])
    if problems:
        raise typer.Exit(problems[0].exit_code)


def _cores() -> Check:
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    busy = ": busy, so what is measured now holds the others' share too" if load > BUSY * cores else ""
    return Check("cores", True, f"{cores} usable, load {load:.1f}{busy}")


def _gpus() -> list[Check]:
    """Return what GPUs there are, and whether several workers can share one."""
    visible = visible_gpus()
    if not visible:
        return [Check("gpus", None, "none: workers are CPU processes")]
    described = "; ".join(described_gpus()) or "nvidia-smi does not answer"
    control = shutil.which("nvidia-cuda-mps-control")
    sharing = "gpu_slices can cut a GPU" if control else "without it each worker needs a whole GPU; it comes with CUDA"
    return [
        Check("gpus", True, f"{len(visible)} visible: {described}"),
        Check("mps", True if control else None, sharing),
    ]


def _package(name: str) -> Check:
    extra, distribution, purpose = PACKAGES[name]
    if importlib.util.find_spec(name) is None:
        return Check(name, None, f"for {purpose}: pip install 'cotune[{extra}]'")
    return Check(name, True, importlib.metadata.version(distribution))


def _program(name: str) -> Check:
    place = shutil.which(name)
    return Check(name, True, place) if place else Check(name, None, f"for {PROGRAMS[name]}")


def _isolation() -> Check:
    if can_isolate():
        return Check("isolation", True, "a process namespace ends every worker with its engine")
    return Check("isolation", None, "no process namespaces: workers end by signals, which a killed engine may delay")


def _store(url: str | None) -> Check:
    try:
        with open_store(url) as store:
            return Check("store", True, f"{store.label}: {len(store.samples())} samples")
    except CotuneError as error:
        return Check("store", False, str(error), error.exit_code)
