"""`cotune export`: the plan as a file for the launcher you already have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cotune.cli import options
from cotune.cli.flags import JobFlags, records_as_flags
from cotune.cli.help import GOAL, OUTPUT, SPACE, flag, rare_flag
from cotune.cli.output import emit_json, note, refuse_overwriting, show, writing
from cotune.documents import config_document
from cotune.errors import UsageError
from cotune.interop.export import LaunchOrder, order, use, write
from cotune.interop.export import names as launchers
from cotune.jobfile.metric import as_measured
from cotune.project.warnings import other_goal
from cotune.run.launch import Launch
from cotune.run.training import config_of_run, epochs_elsewhere, goal_of_run, require_taken, seconds_limit
from cotune.units import seconds


@records_as_flags
def export(
    *,
    target: Annotated[
        str | None, typer.Argument(help="torchrun, slurm, skypilot, kubeflow, ray or accelerate.")
    ] = None,
    output: Annotated[Path | None, flag(OUTPUT, "--output", "-o", help="The file to write (default: stdout).")] = None,
    workers: Annotated[
        int | None, flag(SPACE, "--workers", "-w", help="Workers, instead of the plan's.", min=1)
    ] = None,
    batch_size: Annotated[
        int | None, flag(SPACE, "--batch-size", "-b", help="Batch of each worker, instead of the plan's.", min=1)
    ] = None,
    axis: options.Axis = None,
    epochs: options.Epochs = None,
    per_node: Annotated[
        int | None, rare_flag(SPACE, "--per-node", help="Most workers on a node, instead of the device's.", min=1)
    ] = None,
    limit: Annotated[str | None, flag(GOAL, "--limit", help="Time to ask for, instead of the forecast's.")] = None,
    image: Annotated[str | None, rare_flag("Options", "--image", help="The container image (kubeflow).")] = None,
    queue: Annotated[str | None, rare_flag("Options", "--queue", help="Kueue's local queue (kubeflow).")] = None,
    volume: Annotated[
        str | None, rare_flag("Options", "--volume", help="The claim that holds checkpoints (kubeflow).")
    ] = None,
    spot: Annotated[bool, rare_flag("Options", "--spot", help="On spot machines, recovered (skypilot).")] = False,
    force: Annotated[bool, flag(OUTPUT, "--force", help="Write over an existing file.")] = False,
    named: JobFlags,
    json: options.Json = False,
) -> None:
    """Write the latest plan, or a config of your own, for a launcher you have.

    cotune export torchrun
    cotune export slurm -o train.sbatch --per-node 4
    """
    if target is None:
        raise UsageError(f"name the launcher to write for: {', '.join(launchers())}, as in cotune export torchrun")
    settings = named.load({"epochs": epochs})
    given: dict[str, Any] = {"workers": workers, "batch_size": batch_size, "axes": options.chosen_axes(axis)}
    require_taken(settings.job, given["axes"])
    with options.open_store(named.store, reading=True) as store:
        settings = options.as_last_planned(as_measured(settings, store), store)
        plan = store.latest_plan(settings.job)
        config = config_of_run(plan.config if plan else None, settings.space, settings.cluster.devices[0].name, **given)
        for words in other_goal(settings, store, config):
            note(words)
    plan = plan if plan and plan.config == config else None
    goal = goal_of_run(plan, settings.goal, ["epochs"] if epochs else [])
    most_seconds = seconds(limit) if limit else seconds_limit(plan) if plan else None
    job, needed = settings.job, epochs_elsewhere(plan, goal)
    launch = Launch("export", job, config, needed, Path(job.folder), seconds_limit=most_seconds)
    forecast = plan.forecast if plan else None
    asked = replace(
        order(launch, settings.cluster, forecast, max_cost=goal.max_cost, per_node=per_node),
        image=image,
        queue=queue,
        volume=volume,
        spot=spot,
        settings=settings.engine_settings if settings.engine == target == "slurm" else None,
    )
    text = write(target, asked)
    if output is not None:
        _write(output, text, force=force)
    _tell(target, asked, text, output, json=json)


def _write(output: Path, text: str, *, force: bool) -> None:
    refuse_overwriting(output, force=force)
    with writing(output):
        output.write_text(text, encoding="utf-8")


def _tell(target: str, asked: LaunchOrder, text: str, output: Path | None, *, json: bool) -> None:
    """Print the file, or where it is and how it is used."""
    if json:
        document = {
            "target": target,
            "config": config_document(asked.config),
            "epochs": asked.epochs,
            "nodes": asked.nodes,
            "per_node": asked.per_node,
            "limit_seconds": asked.limit,
            "file": str(output) if output else None,
            "text": text,
            "use": use(target, str(output or "FILE")),
        }
        emit_json("export", document)
    elif output is None:
        show(text.removesuffix("\n"))
    else:
        note(f"{asked.config}: wrote {output}; next: {use(target, str(output))}")
