"""`cotune doctor`: what this machine offers, and what would be missing."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import typer

from cotune.cli.options import Json, StoreUrl

PACKAGES = {"torch": "torch", "sklearn": "workloads", "optuna": "optuna", "ray": "ray", "plotly": "plots"}


@dataclass(frozen=True, slots=True)
class Check:
    """What was found of one thing: good, absent (None) or a problem, with the exit code of verbs that meet it."""

    name: str
    ok: bool | None
    detail: str
    exit_code: int = 0


def doctor(
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Check this machine: its cores, GPUs and packages, the store. And whether workers can be isolated."""
    from cotune.cli.output import emit_json, table

    checks = [
        Check("python", True, f"{sys.version.split()[0]} at {sys.executable}"),
        Check("cores", True, f"{len(os.sched_getaffinity(0))} usable, load {os.getloadavg()[0]:.1f}"),
        _gpus(),
        *(_package(name, extra) for name, extra in PACKAGES.items()),
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


def _gpus() -> Check:
    from cotune.devices.present import visible_gpus

    found = visible_gpus()
    return Check(
        "gpus", True if found else None, f"{len(found)} visible" if found else "none: workers are CPU processes"
    )


def _package(name: str, extra: str) -> Check:
    import importlib.metadata
    import importlib.util

    if importlib.util.find_spec(name) is None:
        return Check(name, None, f"pip install 'cotune[{extra}]'")
    distribution = {"sklearn": "scikit-learn"}.get(name, name)
    return Check(name, True, importlib.metadata.version(distribution))


def _isolation() -> Check:
    from cotune.run.local.keeper import can_isolate

    if can_isolate():
        return Check("isolation", True, "a process namespace ends every worker with its engine")
    return Check("isolation", None, "no process namespaces: workers end by signals, which a killed engine may delay")


def _store(url: str | None) -> Check:
    from cotune.cli.options import open_store
    from cotune.errors import CotuneError

    try:
        with open_store(url) as kept:
            return Check("store", True, f"{kept.label}: {len(kept.samples())} samples")
    except CotuneError as error:
        return Check("store", False, str(error), error.exit_code)
