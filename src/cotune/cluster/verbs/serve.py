"""`cotune serve`: run the jobs of the queue, each on workers by a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.help import SPACE, flag, rare_flag
from cotune.cli.options import Json, StoreUrl
from cotune.cli.output import emit_json, say
from cotune.cluster.api.listening import address_of, answering, token_file
from cotune.cluster.service.daemon import Service, ServiceOptions, checked, log
from cotune.cluster.service.device_types import alike, served_cluster
from cotune.errors import UsageError
from cotune.types import Cluster
from cotune.units import seconds


def serve(
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
    json: Json = False,
) -> None:
    """Run the jobs of cotune submit as a policy decides, until SIGTERM.

    cotune serve --slots 8
    cotune serve --cluster 4x8 --policy srtf --drain
    """
    kept, given = None if keep is None else seconds(keep), _cluster(slots, cluster)
    most = None if keep_gigabytes is None else keep_gigabytes * 1e9
    options = ServiceOptions(policy, given, placement, profilers, drain, kept, most, metrics_port)
    if check:
        if listen is not None:
            address_of(listen)
            token_file(tokens)
        _check(store, options, json)
        return
    with _http(store, listen, tokens, folders or ()):
        Service(store, options).run()
    if json:
        emit_json("serve", {"policy": options.policy or "joint", "slots": options.size})


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
    with answering(listen, tokens, folders, store) as address:
        log("listening", address=address)
        yield


def _check(store: str | None, options: ServiceOptions, json: bool) -> None:
    found = checked(store, options)
    if json:
        emit_json("serve.check", found)
    else:
        for name, words in found.items():
            say(f"{name:<9} {words}")
