"""`cotune serve`: run the jobs of the queue, each on workers by a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cotune import registry
from cotune.cli.help import SPACE, flag, rare_flag
from cotune.cli.options import Engine, Json, Seed, StoreUrl
from cotune.cli.output import emit_json, end_with, note, say, table
from cotune.cluster.api.listening import ApiAddress, answering
from cotune.cluster.arrivals import Intake, Stores, settings_of
from cotune.cluster.live import LiveWorld
from cotune.cluster.live_job import LiveJob
from cotune.cluster.loop import Changes, drive
from cotune.cluster.node_packing import Count
from cotune.cluster.service.daemon import Service, ServiceOptions, checked, log
from cotune.cluster.service.device_types import alike, served_cluster
from cotune.cluster.service.outcomes import outcome_of
from cotune.cluster.service.states import State
from cotune.documents import config_document, goal_document
from cotune.errors import CotuneError, EngineError, Missed, UsageError
from cotune.plan.rates import cost_of
from cotune.run.launch import opened_engine
from cotune.types import RECORDED, Cluster
from cotune.units import counted, duration, number, seconds


def serve(
    jobs: Annotated[
        list[Path] | None, typer.Argument(help="Job files, or folders with one.", show_default=False)
    ] = None,
    queue: Annotated[
        Path | None,
        rare_flag("Options", "--queue", help="Also take every job file that comes into this folder, until Ctrl-C."),
    ] = None,
    policy: Annotated[
        str | None, flag(SPACE, "--policy", help="Who runs on what: joint (the default), fifo, srtf, ...")
    ] = None,
    slots: Annotated[
        int | None, flag(SPACE, "--slots", help="Workers for all jobs (default: cores, or the device's).", min=1)
    ] = None,
    cluster: Annotated[
        str | None,
        flag(
            SPACE, "--cluster", help="What there is for all jobs: 4x8 (nodes x units), or a YAML file of device types."
        ),
    ] = None,
    placement: Annotated[
        str | None,
        rare_flag(
            SPACE,
            "--placement",
            help="How nodes are chosen: consolidate (the default), emptiest, spread, even, fragmentation, count.",
        ),
    ] = None,
    store: StoreUrl = None,
    engine: Engine = None,
    profilers: Annotated[
        int, rare_flag(SPACE, "--profilers", help="Jobs of the queue that are measured at a time.", min=1)
    ] = 1,
    drain: Annotated[bool, typer.Option("--drain", help="End when no job of the queue is left.")] = False,
    keep: Annotated[
        str | None, rare_flag("Options", "--keep", help="Remove logs and checkpoints this long after a job's end: 30d.")
    ] = None,
    keep_gigabytes: Annotated[
        float | None,
        rare_flag(
            "Options",
            "--keep-gigabytes",
            help="Remove those of the jobs that ended first where all ended jobs' take more.",
            min=0.0,
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        rare_flag("Options", "--metrics-port", help="/metrics for Prometheus on loopback.", min=1, max=65535),
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", help="Answer HTTP under /api/v1/ here: 8791; with --tokens.")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", help="The file of tokens that `cotune token` makes.")
    ] = None,
    folders: Annotated[
        list[Path] | None,
        rare_flag(SPACE, "--folder", help="Where jobs that come over HTTP may stand (default: this folder)."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say whether it could start.")] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Work off the queue of cotune submit as a policy decides, until SIGTERM; or the job files that are named.

    cotune serve --slots 8
    cotune serve --cluster 4x8 --policy srtf --drain
    """
    if not jobs and queue is None:
        if engine is not None:
            raise UsageError("the service runs each job on the engine that its file names: leave out --engine")
        kept, given = None if keep is None else seconds(keep), _cluster(slots, cluster)
        most = None if keep_gigabytes is None else keep_gigabytes * 1e9
        options = ServiceOptions(policy, given, placement, profilers, drain, kept, most, metrics_port)
        if check:
            if listen is not None:
                ApiAddress.parse(listen, tokens, folders or ()).token_file()
            _check(store, options, json)
            return
        with _http(store, listen, tokens, folders or ()):
            _service(store, options, json=json)
        return
    if cluster is not None or placement is not None:
        raise UsageError("--cluster and --placement are for the service: hand jobs in with `cotune submit`")
    policy = policy or "joint"
    chosen: Any = registry.create("policy", policy)
    first = [settings_of(path, engine) for path in jobs or ()]
    with Stores(store) as stores:
        intake = Intake(stores, first, queue, engine=engine, slots=slots, seed=seed)
        with opened_engine(intake.like.engine, intake.like.engine_settings) as running:
            world = LiveWorld(running, intake.arrivals, stores.save, replays=intake.like.engine == RECORDED)
            try:
                for active in drive(chosen, intake.pool, world, Count(), _note_changes):
                    note(f"[{world.now():.1f} s] {active.job.name}: {_outcome(world.jobs[active.number])[1]}")
            except KeyboardInterrupt:
                world.interrupt()
                note("interrupted: what was measured is kept, and the same command resumes from there")
                raise
    ended = [_document(job) for job in world.jobs.values()]
    if json:
        emit_json("serve", {"policy": policy, "slots": intake.slots, "jobs": ended, "declined": intake.declined})
    else:
        _show(ended, intake.declined)
    _end(ended, intake.declined, quiet=json)


def _cluster(slots: int | None, spec: str | None) -> Cluster | None:
    """Return the cluster that a service is given, if any."""
    if spec is None:
        return alike(slots) if slots else None
    if slots is not None:
        raise UsageError("--slots and --cluster both say what there is: give one")
    return served_cluster(spec)


@contextmanager
def _http(store: str | None, listen: str | None, tokens: Path | None, folders: Sequence[Path]) -> Iterator[None]:
    """Answer HTTP beside the service where that is asked."""
    if listen is None:
        yield
        return
    with answering(ApiAddress.parse(listen, tokens, folders), store) as address:
        log("listening", address=address)
        yield


def _service(store: str | None, options: ServiceOptions, *, json: bool) -> None:
    Service(store, options).run()
    if json:
        emit_json("serve", {"policy": options.policy or "joint", "slots": options.size, "jobs": [], "declined": []})


def _check(store: str | None, options: ServiceOptions, json: bool) -> None:
    found = checked(store, options)
    if json:
        emit_json("serve.check", found)
    else:
        for name, words in found.items():
            say(f"{name:<9} {words}")


def _note_changes(changes: Changes) -> None:
    for active in changes.stops:
        if active not in changes.starts:
            note(f"[{changes.at:.1f} s] {active.job.name}: stopped, others go first")
    for active in changes.starts:
        note(f"[{changes.at:.1f} s] {active.job.name}: {active.config}")


def _outcome(job: LiveJob) -> tuple[State, str]:
    """Return what became of a job, and the words that tell it without its state beside them."""
    state, words = outcome_of(job)
    return state, f"{state}: {words}" if state in (State.FAILED, State.DECLINED) else words


def _document(job: LiveJob) -> dict[str, Any]:
    outcome, words = _outcome(job)
    sample, active, planned = job.whole, job.active, job.planned
    return {
        "job": active.job.name,
        "goal": goal_document(planned.job, planned.goal, planned.cluster.unit),
        "outcome": outcome,
        "words": words,
        "submitted": active.job.submit,
        "waited": active.waited,
        "seconds": active.executed,
        "starts": len(job.starts),
        "config": config_document(sample.config) if sample else None,
        "epochs": sample.epochs if sample else 0.0,
        "accuracy": sample.accuracy if sample else None,
        "cost": {"value": cost_of(job.starts, planned.cluster), "unit": planned.cluster.unit},
        "samples": [start.id for start in job.starts],
    }


def _show(ended: Sequence[dict[str, Any]], declined: Sequence[dict[str, str]]) -> None:
    columns = ("job", "workers", "batch", "starts", "waited", "ran", "cost", "outcome")
    rows: list[tuple[object, ...]] = [
        (
            one["job"],
            one["config"]["workers"] if one["config"] else "",
            one["config"]["batch_size"] if one["config"] else "",
            one["starts"],
            duration(one["waited"]),
            duration(one["seconds"]),
            f"{number(one['cost']['value'], 3)} {one['cost']['unit']}",
            one["words"],
        )
        for one in ended
    ]
    rows += [(one["job"], "", "", 0, "", "", "", f"declined: {one['reason'].partition(';')[0]}") for one in declined]
    table(columns, rows)


def _end(ended: Sequence[dict[str, Any]], declined: Sequence[dict[str, str]], *, quiet: bool) -> None:
    """Leave with the exit code of the worst that happened to a job."""
    failed = [one["job"] for one in ended if one["outcome"] == "failed"]
    short = [one["job"] for one in ended if one["outcome"] in ("missed", "declined")] + [one["job"] for one in declined]
    error: CotuneError | None = None
    if failed:
        error = EngineError(f"{counted(len(failed), 'job')} failed: {', '.join(failed)}")
    elif short:
        error = Missed(f"{counted(len(short), 'job')} did not meet the goal: {', '.join(short)}")
    end_with(error, told=quiet)
