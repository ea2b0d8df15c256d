"""`cotune simulate`: a job trace under scheduling policies, compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli.help import GOAL, OUTPUT, SPACE, rare
from cotune.cli.options import Json, Seed, StoreUrl

if TYPE_CHECKING:
    from cotune.cluster.policy import Policy
    from cotune.cluster.simulate import Outcome
    from cotune.cluster.simulate.why import Explanation
    from cotune.cluster.traces import Trace
    from cotune.types import Cluster

_LEFT_OUT_SHOWN = 20


def simulate(
    trace: Annotated[Path, typer.Argument(help="A trace: plain CSV, ITP, Philly, Pollux, Tiresias, sacct; or -.")],
    cluster: Annotated[
        str, typer.Option("--cluster", rich_help_panel=SPACE, help="104 (GPUs), 13x8 (nodes x GPUs) or a YAML file.")
    ],
    policy: Annotated[
        str, typer.Option("--policy", rich_help_panel=SPACE, help="Policies: fifo,srtf,las(variant=pollux).")
    ] = "fifo",
    only: Annotated[
        list[str] | None, typer.Option("--only", rich_help_panel=rare(SPACE), help="Only lines with column=value.")
    ] = None,
    placement: Annotated[
        str | None, typer.Option("--placement", rich_help_panel=rare(SPACE), help="count, consolidate, spread, ...")
    ] = None,
    restart: Annotated[
        str, typer.Option("--restart", rich_help_panel=rare(SPACE), help="Seconds lost at every start.")
    ] = "0",
    noise: Annotated[
        str | None,
        typer.Option("--noise", rich_help_panel=rare(SPACE), help="Errors of what policies believe: 0.1,0.3,1.0."),
    ] = None,
    speeds: Annotated[
        Path | None,
        typer.Option(
            "--speeds", rich_help_panel=rare(SPACE), help="A folder of MODEL.csv: such jobs become malleable."
        ),
    ] = None,
    targets: Annotated[
        bool,
        typer.Option(
            "--targets",
            rich_help_panel=rare(GOAL),
            help="Jobs with learning curves (Pollux) end at an accuracy, at any batch.",
        ),
    ] = False,
    deadlines: Annotated[
        str | None,
        typer.Option(
            "--deadlines",
            rich_help_panel=rare(GOAL),
            help="Deadlines where there are none: 0.5,1.5 times the run time.",
        ),
    ] = None,
    why: Annotated[
        str | None, typer.Option("--why", rich_help_panel=OUTPUT, help="Explain this job, at the time of --at.")
    ] = None,
    at: Annotated[
        float | None, typer.Option("--at", rich_help_panel=OUTPUT, help="Seconds on the trace's clock, for --why.")
    ] = None,
    picture: Annotated[
        str | None, typer.Option("--picture", rich_help_panel=OUTPUT, help="Draw gantt (jobs), nodes, cdf or use.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", rich_help_panel=OUTPUT, help="Write all pictures to a page.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", rich_help_panel=OUTPUT, help="Keep the results in the store, for the dashboard.")
    ] = False,
    store: StoreUrl = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", rich_help_panel=rare(SPACE), help="Leave out lines that cannot be jobs.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare scheduling policies on a trace of jobs, on a simulated cluster.

    cotune simulate trace.csv --cluster 8x8 --policy fifo,srtf,las
    cotune simulate trace.csv --cluster 64 --why job7 --at 3600
    """
    from cotune.cli.output import emit_json, note
    from cotune.cluster.simulate.clusters import parse_cluster
    from cotune.cluster.traces import fitting, read
    from cotune.cluster.verbs._comparison import print_comparison, tell_why
    from cotune.errors import UsageError
    from cotune.registry import several

    if (why is None) != (at is None):
        raise UsageError("--why JOB and --at SECONDS, a time on the trace's clock, go together")
    there = parse_cluster(cluster)
    jobs = fitting(read(trace, _pairs(only), skip_bad=skip_bad), there, skip_bad=skip_bad)
    jobs = _extended(jobs, there, speeds, deadlines, seed, targets=targets)
    policies = {text: _policy(text, jobs) for text in several(policy)}
    if not policies:
        raise UsageError("--policy: name at least one; `cotune algorithms` lists them")
    levels = _levels(noise)
    run = _Runner(jobs, there, placement, _seconds(restart), seed, keep_spells=bool(picture or html or keep))
    if why is not None and at is not None:
        tell_why({text: run.explain(why, at, chosen, levels[-1]) for text, chosen in policies.items()}, json)
        return
    for line in jobs.left_out[:_LEFT_OUT_SHOWN]:
        note(f"left out {line}")
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
        print_comparison(document, jobs, there)


def _extended(
    jobs: Trace, cluster: Cluster, speeds: Path | None, deadlines: str | None, seed: int, *, targets: bool
) -> Trace:
    """Return the jobs with the speeds, targets and deadlines that the flags give them."""
    from cotune.cluster.traces.goals import with_deadlines, with_targets
    from cotune.cluster.traces.speeds import malleable

    jobs = malleable(jobs, speeds, cluster) if speeds is not None else jobs
    jobs = with_targets(jobs) if targets else jobs
    return with_deadlines(jobs, *_limits(deadlines), seed) if deadlines is not None else jobs


def _keep(store: str | None, document: dict[str, Any], outcomes: dict[str, Outcome]) -> None:
    from cotune.cli.options import open_store
    from cotune.cli.output import note
    from cotune.cluster.simulate.archive import kept

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
        from cotune.cluster.simulate import simulate
        from cotune.cluster.simulate.beliefs import mistaken

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

        from cotune.cluster.policy import Active, Submission
        from cotune.cluster.simulate import simulate
        from cotune.cluster.simulate.beliefs import mistaken
        from cotune.cluster.simulate.why import ASSUMED_SPREAD, Scene, explain

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
                keep_spells=True,
                until=until,
            )

        return explain(name, at, Scene(self.trace.jobs, self.cluster, policy, play, noise or ASSUMED_SPREAD))


def _policy(text: str, trace: Trace) -> Policy:
    from dataclasses import replace

    from cotune import registry
    from cotune.errors import UsageError

    try:
        policy: Any = registry.create("policy", text)
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from None
    # Without a history of its own a policy knows how long the jobs of this trace are, but not which is which.
    if hasattr(policy, "history") and not policy.history:
        policy = replace(policy, history=tuple(job.gpus * job.seconds for job in trace.jobs))
    found: Policy = policy
    return found


def _document(trace: Trace, cluster: Cluster, outcomes: dict[str, Outcome]) -> dict[str, Any]:
    from cotune.cluster.simulate.metrics import metrics

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
    from cotune.cluster.simulate.beliefs import flips
    from cotune.cluster.simulate.metrics import metrics

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


def _draw(outcomes: dict[str, Outcome], picture: str | None, html: Path | None, *, quiet: bool) -> None:
    from cotune.cli.output import note, show, writing
    from cotune.cluster.simulate import pictures

    if picture is not None and not quiet:
        show(pictures.text(picture, outcomes))
    if html is not None:
        with writing(html):
            pictures.write_page(html, outcomes)
        note(f"pictures are in {html}")


def _pairs(only: list[str] | None) -> dict[str, str]:
    from cotune.errors import UsageError

    pairs = [entry.partition("=") for entry in only or []]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f"cannot read --only {name!r}; write --only cluster=02")
    return {name: value for name, _, value in pairs}


def _limits(deadlines: str) -> tuple[float, float]:
    """Return the least and the most of '0.5,1.5'."""
    from cotune.errors import UsageError

    least, _, most = deadlines.partition(",")
    try:
        limits = float(least), float(most or least)
    except ValueError:
        limits = 0.0, 0.0
    if not 0 < limits[0] <= limits[1] < float("inf"):
        raise UsageError(f"cannot read --deadlines {deadlines!r}; write --deadlines 0.5,1.5, times the run time")
    return limits


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
