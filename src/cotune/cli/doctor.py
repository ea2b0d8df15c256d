"""`cotune doctor`: what this machine offers, and what would be missing."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from cotune.cli._options import Json, StoreUrl

PACKAGES = {"torch": "torch", "sklearn": "workloads", "optuna": "optuna", "ray": "ray", "plotly": "plots"}


@dataclass(frozen=True, slots=True)
class Check:
    """What was found of one thing: good, absent (None) or a problem, with the exit code of verbs that meet it."""

    name: str
    ok: bool | None
    detail: str
    exit_code: int = 0


def doctor(
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Measure this machine's rates for `cotune predict --model`, and keep them."),
    ] = False,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Check this machine: its cores, GPUs and packages, the store. And whether workers can be isolated."""
    from cotune.cli._output import emit_json, table

    if calibrate:
        _calibrate(json)
        return
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


def _calibrate(json: bool) -> None:
    """Measure one core, and the first GPU where there is one; keep both in the work folder."""
    from dataclasses import asdict
    from pathlib import Path

    from cotune.cli._output import emit_json, say, table
    from cotune.counting.calibrate import calibrate
    from cotune.devices.calibration import keep
    from cotune.store import work_folder
    from cotune.units import number

    devices = ("cpu", "cuda") if _gpus().ok else ("cpu",)
    found = [calibrate(device) for device in devices]
    files = [keep(one, work_folder(Path.cwd())) for one in found]
    if json:
        written = [asdict(one) | {"file": str(file)} for one, file in zip(found, files, strict=True)]
        emit_json("doctor.calibrate", {"calibrations": written})
        return
    rows = [
        (
            f"{one.name} ({'one core' if one.kind == 'cpu' else 'one GPU'})",
            ", ".join(f"{number(rate / 1e9, 3)} {name}" for name, rate in one.product.items()),
            ", ".join(f"{number(rate / 1e9, 3)} {name}" for name, rate in one.convolution.items()),
            number(one.bandwidth / 1e9, 3),
            number(one.dispatch * 1e6, 3),
            number(one.step * 1e6, 3),
        )
        for one in found
    ]
    table(
        ("device", "products, GFLOP/s", "convolutions, GFLOP/s", "memory, GB/s", "us per operator", "us per step"), rows
    )
    say(f"kept in   {', '.join(map(str, files))}")


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
    from cotune.run._keeper import can_isolate

    if can_isolate():
        return Check("isolation", True, "a process namespace ends every worker with its engine")
    return Check("isolation", None, "no process namespaces: workers end by signals, which a killed engine may delay")


def _store(url: str | None) -> Check:
    from cotune.cli._options import open_store
    from cotune.errors import CotuneError

    try:
        with open_store(url) as kept:
            return Check("store", True, f"{kept.label}: {len(kept.samples())} samples")
    except CotuneError as error:
        return Check("store", False, str(error), error.exit_code)
