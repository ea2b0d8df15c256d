"""`cotune simulate`: a job trace under scheduling policies, compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli._options import Json, Seed, StoreUrl

if TYPE_CHECKING:
    from cotune.adapters.traces import Trace
    from cotune.schedule import Policy
    from cotune.simulate import Outcome
    from cotune.simulate.why import Explanation
    from cotune.types import Cluster


def simulate(
    trace: Annotated[Path, typer.Argument(help="A trace: plain CSV, ITP, Philly, Pollux, Tiresias or sacct.")],
    cluster: Annotated[str, typer.Option("--cluster", help="104 (GPUs), 13x8 (nodes x GPUs) or a YAML file.")],
    policy: Annotated[str, typer.Option("--policy", help="Policies: fifo,srtf,las(variant=pollux).")] = "fifo",
    only: Annotated[list[str] | None, typer.Option("--only", help="Only lines with column=value.")] = None,
    placement: Annotated[str | None, typer.Option("--placement", help="count, consolidate, spread, ...")] = None,
    restart: Annotated[str, typer.Option("--restart", help="Seconds lost at every start.")] = "0",
    noise: Annotated[str | None, typer.Option("--noise", help="Errors of what policies believe: 0.1,0.3,1.0.")] = None,
    speeds: Annotated[
        Path | None, typer.Option("--speeds", help="A folder of MODEL.csv: such jobs become malleable.")
    ] = None,
    why: Annotated[str | None, typer.Option("--why", help="Explain this job, at the time of --at.")] = None,
    at: Annotated[float | None, typer.Option("--at", help="Seconds on the trace's clock, for --why.")] = None,
    picture: Annotated[
        str | None, typer.Option("--picture", help="Draw gantt, cdf or use; to a file with --html.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write all pictures to a page.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the results in the store, for the dashboard.")] = False,
    store: StoreUrl = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that cannot be jobs.")] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare scheduling policies on a trace of jobs. On a cluster that is simulated."""
    from cotune.adapters.traces import fitting, read
    from cotune.adapters.traces.speeds import malleable
    from cotune.cli._output import emit_json, note
    from cotune.errors import UsageError
    from cotune.simulate.clusters import parse_cluster

    there = parse_cluster(cluster)
    jobs = fitting(read(trace, _pairs(only), skip_bad=skip_bad), there, skip_bad=skip_bad)
    if speeds is not None:
        jobs = malleable(jobs, speeds, there)
    policies = {text: _policy(text, jobs) for text in _listed(policy)}
    run = _Runner(jobs, there, placement, _seconds(restart), seed, keep_spells=bool(picture or html or keep))
    if why is not None:
        if at is None:
            raise UsageError("--why needs --at, a time in seconds on the trace's clock")
        found = {text: run.explain(why, at, chosen, _levels(noise)[-1]) for text, chosen in policies.items()}
        _tell_why(found, json)
        return
    for line in jobs.left_out[:20]:
        note(f"left out {line}")
    levels = _levels(noise)
    outcomes = {text: run(chosen, 0.0) for text, chosen in policies.items()}
    document = _document(jobs, there, outcomes)
    if levels != [0.0]:
        document |= _robustness(run, policies, levels, document["results"])
    if picture or html:
        _draw(outcomes, picture, html, quiet=json)
    if keep:
        _keep(store, document, outcomes)
    if json:
        emit_json("simulate", document)
    else:
        _print(document, jobs, there)


def _keep(store: str | None, document: dict[str, Any], outcomes: dict[str, Outcome]) -> None:
    from cotune.cli._options import open_store
    from cotune.cli._output import note
    from cotune.simulate.kept import kept

    facts = {name: document[name] for name in ("trace", "format", "jobs", "left_out", "cluster")}
    policies = {name: kept(outcome) for name, outcome in outcomes.items()}
    with open_store(store) as opened:
        opened.save_result("simulate", Path(document["trace"]).name, facts | {"policies": policies})
        note(f"kept in {opened.label}; cotune dashboard shows it")


class _Runner:
    """Simulates with the flags of one call."""

    def __init__(
        self, trace: Trace, cluster: Cluster, placement: str | None, restart: float, seed: int, *, keep_spells: bool
    ) -> None:
        self.trace, self.cluster = trace, cluster
        self.placement, self.restart, self.seed, self.keep_spells = placement, restart, seed, keep_spells

    def __call__(self, policy: Policy, noise: float) -> Outcome:
        from cotune.simulate import simulate
        from cotune.simulate.beliefs import mistaken

        return simulate(
            self.trace.jobs,
            self.cluster,
            policy,
            placement=self.placement,
            restart=self.restart,
            believe=mistaken(noise, len(self.trace.jobs), self.seed),
            keep_spells=self.keep_spells,
        )

    def explain(self, name: str, at: float, policy: Policy, noise: float) -> Explanation:
        from dataclasses import replace

        from cotune.schedule import Active, Submission
        from cotune.simulate import simulate
        from cotune.simulate.beliefs import mistaken
        from cotune.simulate.why import ASSUMED_SPREAD, Scene, explain

        believed = mistaken(noise, len(self.trace.jobs), self.seed)
        whole = {job.name: job for job in self.trace.jobs}

        def believe(job: Submission, number: int) -> Active:
            return replace(believed(whole[job.name], number), job=job)

        def play(jobs: Any, until: float) -> Outcome:
            return simulate(
                jobs,
                self.cluster,
                policy,
                placement=self.placement,
                restart=self.restart,
                believe=believe,
                until=until,
            )

        return explain(name, at, Scene(self.trace.jobs, self.cluster, policy, play, noise or ASSUMED_SPREAD))


def _policy(text: str, trace: Trace) -> Policy:
    from dataclasses import replace

    from cotune import algorithms
    from cotune.errors import UsageError

    try:
        policy: Any = algorithms.create("schedule", text)
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from None
    # Without a history of its own a policy knows how long the jobs of this trace are, but not which is which.
    if hasattr(policy, "history") and not policy.history:
        policy = replace(policy, history=tuple(job.gpus * job.seconds for job in trace.jobs))
    found: Policy = policy
    return found


def _document(trace: Trace, cluster: Cluster, outcomes: dict[str, Outcome]) -> dict[str, Any]:
    from cotune.simulate.metrics import metrics

    return {
        "trace": str(trace.path),
        "format": trace.format,
        "jobs": len(trace.jobs),
        "left_out": len(trace.left_out),
        "left_out_lines": list(trace.left_out[:100]),
        "cluster": {device.name: device.count for device in cluster.devices},
        "results": {name: metrics(outcome) for name, outcome in outcomes.items()},
    }


def _robustness(
    run: _Runner, policies: dict[str, Policy], levels: list[float], truth: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    from cotune.simulate.beliefs import flips
    from cotune.simulate.metrics import metrics

    noisy = {
        level: {name: metrics(run(policy, level)) for name, policy in policies.items()} for level in levels if level
    }
    scores = {level: {name: found["jct_mean"] for name, found in results.items()} for level, results in noisy.items()}
    scores[0.0] = {name: found["jct_mean"] for name, found in truth.items()}
    return {
        "noise": {f"{level:g}": results for level, results in noisy.items()},
        "flips": [
            {"noise": level, "better": better, "better_without_noise": was} for level, better, was in flips(scores)
        ],
    }


def _print(document: dict[str, Any], trace: Trace, cluster: Cluster) -> None:
    from cotune.cli._output import say, table
    from cotune.units import number

    gpus = " + ".join(f"{device.count} {device.name}" for device in cluster.devices)
    columns: tuple[str, ...]
    columns = ("policy", "mean", "p50", "p99", "makespan", "waiting", "slowdown", "use", "GPU hours", "stops", "left")
    results = document["results"]
    deadlines = any(found["deadlines"] for found in results.values())
    rows = [
        (
            name,
            *(number(found[key] or 0.0, 6) for key in ("jct_mean", "jct_p50", "jct_p99", "makespan", "waiting_mean")),
            number(found["slowdown_mean"] or 0.0, 3),
            f"{found['utilisation']:.0%}",
            number(found["gpu_hours"], 5),
            found["preemptions"],
            found["unfinished"],
            *([f"{found['deadlines']['met_share']:.1%}", found["declined"]] if deadlines else []),
        )
        for name, found in results.items()
    ]
    columns = (*columns, "deadlines met", "declined") if deadlines else columns
    table(columns, rows, title=f"{len(trace.jobs)} jobs on {gpus}: completion times and waiting in seconds")
    for level, noisy in document.get("noise", {}).items():
        table(
            ("policy", "mean", "against 0"),
            [
                (name, number(found["jct_mean"], 6), f"{found['jct_mean'] / results[name]['jct_mean'] - 1:+.1%}")
                for name, found in sorted(noisy.items(), key=lambda item: item[1]["jct_mean"])
            ],
            title=f"forecasts off by a factor exp({level} z), best first",
        )
    for flip in document.get("flips", []):
        say(f"at noise {flip['noise']:g} {flip['better']} beats {flip['better_without_noise']}, but not without")
    if trace.left_out:
        say(f"{len(trace.left_out)} lines left out")


def _tell_why(found: dict[str, Explanation], json: bool) -> None:
    from dataclasses import asdict

    from cotune.cli._output import emit_json, say
    from cotune.units import duration

    if json:
        emit_json("simulate.why", {"why": {policy: asdict(explanation) for policy, explanation in found.items()}})
        return
    for policy, why in found.items():
        say(f"{policy}: job {why.job} is {why.state} at {why.at:g} s")
        if why.blocked_by:
            say(f"  blocked    {why.blocked_by}")
        if why.state != "waiting" or why.start_p50 is None or why.start_p90 is None:
            continue
        first = ", ".join(why.ahead[:5]) + (", ..." if len(why.ahead) > 5 else "")
        say(f"  ahead      {len(why.ahead)} waiting jobs{': ' + first if first else ''}")
        held = ", ".join(f"{name} ({gpus} GPUs, {duration(left)} left)" for name, gpus, left in why.holding[:4])
        say(f"  holding    {held}")
        say(
            f"  start      in {duration(why.start_p50 - why.at)} (p50), {duration(why.start_p90 - why.at)} (p90), "
            f"if nobody else arrives and run times are off by exp({why.spread:g} z)"
        )
        say(f"  change     {why.change}")


def _draw(outcomes: dict[str, Outcome], picture: str | None, html: Path | None, *, quiet: bool) -> None:
    from cotune.cli._output import note
    from cotune.simulate import pictures

    if picture is not None and not quiet:
        print(pictures.text(picture, outcomes))
    if html is not None:
        pictures.write_page(html, outcomes)
        note(f"pictures are in {html}")


def _listed(text: str) -> list[str]:
    """Return the policies of 'a,b(x=1,y=2),c'."""
    import re

    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _pairs(only: list[str] | None) -> dict[str, str]:
    from cotune.errors import UsageError

    pairs = [entry.partition("=") for entry in only or []]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f"cannot read --only {name!r}; write --only cluster=02")
    return {name: value for name, _, value in pairs}


def _levels(noise: str | None) -> list[float]:
    from cotune.errors import UsageError

    try:
        levels = sorted({float(part) for part in (noise or "0").split(",")} | {0.0})
    except ValueError:
        raise UsageError(f"cannot read --noise {noise!r}; write --noise 0.1,0.3,1.0") from None
    if levels[0] < 0 or levels[-1] > 10:
        raise UsageError(f"--noise {noise} must lie between 0 and 10")
    return levels


def _seconds(text: str) -> float:
    from cotune.units import seconds

    return 0.0 if text in ("0", "0s") else seconds(text)
