"""`cotune doctor`: what this machine offers, and what would be missing."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cotune.cli._options import Json, StoreUrl

PACKAGES = {"torch": "torch", "sklearn": "workloads", "optuna": "optuna", "ray": "ray", "plotly": "plots"}


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
        ("python", True, f"{sys.version.split()[0]} at {sys.executable}"),
        ("cores", True, f"{len(os.sched_getaffinity(0))} usable, load {os.getloadavg()[0]:.1f}"),
        _gpus(),
        *(_package(name, extra) for name, extra in PACKAGES.items()),
        _isolation(),
        _store(store),
    ]
    healthy = all(good is not False for _, good, _ in checks)
    if json:
        emit_json(
            "doctor",
            {"healthy": healthy, "checks": [dict(zip(("name", "ok", "detail"), c, strict=True)) for c in checks]},
        )
    else:
        words = {True: "ok", None: "absent", False: "problem"}
        table(("check", "state", "detail"), [(name, words[good], detail) for name, good, detail in checks])
    if not healthy:
        raise typer.Exit(1)


def _calibrate(json: bool) -> None:
    """Measure one core, and the first GPU where there is one; keep both in the work folder."""
    from dataclasses import asdict
    from pathlib import Path

    from cotune.cli._output import emit_json, say, table
    from cotune.counting.calibrate import calibrate
    from cotune.devices.calibration import keep
    from cotune.store import work_folder
    from cotune.units import number

    devices = ("cpu", "cuda") if _gpus()[1] else ("cpu",)
    found = [calibrate(device) for device in devices]
    files = [keep(one, work_folder(Path.cwd())) for one in found]
    if json:
        written = [asdict(one) | {"file": str(file)} for one, file in zip(found, files, strict=True)]
        emit_json("doctor", {"healthy": True, "calibrations": written})
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


Check = tuple[str, bool | None, str]


def _gpus() -> Check:
    from cotune.devices.present import visible_gpus

    found = visible_gpus()
    return ("gpus", True if found else None, f"{len(found)} visible" if found else "none: workers are CPU processes")


def _package(name: str, extra: str) -> Check:
    import importlib.metadata
    import importlib.util

    if importlib.util.find_spec(name) is None:
        return (name, None, f"pip install 'cotune[{extra}]'")
    distribution = {"sklearn": "scikit-learn"}.get(name, name)
    return (name, True, importlib.metadata.version(distribution))


def _isolation() -> Check:
    from cotune.run._keeper import can_isolate

    if can_isolate():
        return ("isolation", True, "a process namespace ends every worker with its engine")
    return ("isolation", None, "no process namespaces here: workers end by signals, which a killed engine may delay")


def _store(url: str | None) -> Check:
    from cotune.cli._options import open_store
    from cotune.errors import CotuneError

    try:
        with open_store(url) as kept:
            return ("store", True, f"{kept.label}: {len(kept.samples())} samples")
    except CotuneError as error:
        return ("store", False, str(error))
