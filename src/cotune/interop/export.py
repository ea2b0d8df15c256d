"""Plans for other launchers: one small writer for each target.

    launch ─order▶ command, variables, nodes x workers, limit ─write▶ the target's own file

A writer is one file with `write(order) -> str` and `USE`, the command that takes the
file. Workers are spread over the fewest nodes that hold equally many each; without
`per_node` of the device they share one node. Values of secret variables are never
written: the file asks for them by name. Every file names a checkpoint folder, and a
start that finds something in it goes on from there.
"""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cotune import progress, registry
from cotune.errors import NotFound, UsageError, suggestion
from cotune.jobfile.names import require_exportable
from cotune.run.command import fill, is_python, numbers, python_target
from cotune.run.launch import Launch
from cotune.safety import redact
from cotune.safety.printable import printable
from cotune.types import Cluster, Config, Forecast
from cotune.units import duration, number

PORT = 29500


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """What a launcher must be told: what to start, how often, where, and for how long at most."""

    name: str
    config: Config
    epochs: int
    command: tuple[str, ...]
    folder: str
    env: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    nodes: int
    per_node: int
    limit: float | None = None
    max_hourly_cost: float | None = None
    image: str | None = None
    queue: str | None = None
    volume: str | None = None
    spot: bool = False
    settings: Mapping[str, Any] | None = None
    about: tuple[str, ...] = ()

    @property
    def gpus(self) -> bool:
        return self.config.device != "cpu"

    @property
    def label(self) -> str:
        """Return the job's name in the letters that every cluster allows."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:50].strip("-") or "job"

    @property
    def checkpoint(self) -> str:
        """Return the folder of what the job keeps, the same for every layout of one global batch."""
        return f"{self.label}-batch{self.config.global_batch}-checkpoint"

    @property
    def head(self) -> str:
        """Return what the file says of itself, as comments."""
        return comment(*self.about)


def comment(*lines: str, indent: str = "") -> str:
    """Return lines as comments of a script or of YAML; a line end in them cannot end the comment."""
    return "".join(f"# {indent}{printable(line)}\n" for line in lines)


def names() -> tuple[str, ...]:
    """Return the targets that can be written."""
    return tuple(sorted(registry.modules("exporters")))


def write(target: str, order: LaunchOrder) -> str:
    """Return the order as the target's own file."""
    return str(_writer(target).write(order))


def use(target: str, file: str) -> str:
    """Return the command by which the target takes a file."""
    return str(_writer(target).USE).format(file=shlex.quote(file))


def _writer(target: str) -> Any:
    known = target.lower()
    if known not in names():
        raise NotFound(f"no export named {target!r}; there are {', '.join(names())}{suggestion(known, names())}")
    return importlib.import_module(registry.modules("exporters")[known])


def order(
    launch: Launch,
    cluster: Cluster,
    forecast: Forecast | None = None,
    *,
    max_cost: float | None = None,
    per_node: int | None = None,
) -> LaunchOrder:
    """Return what launchers must be told of a launch; what none of them can do is said now."""
    job, config = launch.job, launch.config
    if config.servers or len(config.stages) > 1:
        what = f"{config.servers} parameter servers" if config.servers else f"{len(config.stages)} pipeline stages"
        raise UsageError(f"other launchers start equal workers only, and {config} has {what}; run it with: cotune run")
    told = numbers(launch)
    command = tuple(fill(job.command, told))
    if not command:
        raise NotFound("no command to export: give it after --, or as `run:` in cotune.yaml")
    if redact.command(command) != command:
        raise UsageError(
            f"the command holds a secret ({shlex.join(redact.command(command))}), which must not be written to a file; "
            "let the script take it from an environment variable, named under `env:` in cotune.yaml"
        )
    variables = {f"COTUNE_{name.upper()}": value for name, value in told.items() if name in job.reads} | dict(job.env)
    require_exportable(job, variables)
    secret = {name for name, value in variables.items() if redact.secret(name, value) or redact.text(value) != value}
    most = per_node or next((d.per_node for d in cluster.devices if d.name == config.device), None)
    nodes = _nodes(config.workers, most)
    return LaunchOrder(
        name=job.name,
        config=config,
        epochs=launch.epochs,
        command=command,
        folder=job.folder,
        env=tuple(sorted((name, value) for name, value in variables.items() if name not in secret)),
        secrets=tuple(sorted(secret)),
        nodes=nodes,
        per_node=config.workers // nodes,
        limit=launch.seconds_limit,
        max_hourly_cost=_hourly(max_cost, cluster, forecast),
        about=_about(launch, forecast, most),
    )


def torchrun_words(order: LaunchOrder) -> tuple[list[str], list[str]]:
    """Return torchrun as the job's interpreter has it, and the job as torchrun takes it."""
    first, *rest = order.command
    script, module, arguments = python_target(rest) if is_python(first) else (None, None, [])
    torchrun = [first, "-m", "torch.distributed.run"] if is_python(first) and "/" in first else ["torchrun"]
    if script is not None:
        return torchrun, [script, *arguments]
    return torchrun, ["-m", module, *arguments] if module is not None else ["--no-python", *order.command]


def exports(order: LaunchOrder) -> list[str]:
    """Return the lines of a shell script that set the variables, and that ask for the secret ones."""
    asked = [f': "${{{name}:?must be set; it is secret, so it is not written here}}"' for name in order.secrets]
    given = [f"export {name}={shlex.quote(value)}" for name, value in order.env]
    return [*asked, *([f"export {' '.join(order.secrets)}"] if order.secrets else []), *given]


def going_on(order: LaunchOrder, below: str = "$PWD") -> list[str]:
    """Return the lines of a shell script that name the checkpoint folder, and have a start go on from what is in it."""
    return [
        f'export COTUNE_CHECKPOINT="${{COTUNE_CHECKPOINT:-{below}/{order.checkpoint}}}"',
        'mkdir -p "$COTUNE_CHECKPOINT"',
        '[ -z "$(ls -A "$COTUNE_CHECKPOINT")" ] || export COTUNE_RESUME=1  # remove the folder to begin anew',
    ]


def dump(document: Mapping[str, Any]) -> str:
    """Return a document as YAML in its own order, texts of several lines as blocks."""
    return yaml.dump(document, Dumper=_Blocks, sort_keys=False, width=1000)


class _Blocks(yaml.SafeDumper):
    """YAML with texts of several lines as they are read."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Blocks.add_representer(str, _text)


def _nodes(workers: int, per_node: int | None) -> int:
    """Return the fewest nodes that hold the workers, equally many each."""
    if per_node is None:
        return 1
    return next(nodes for nodes in range(-(-workers // per_node), workers + 1) if workers % nodes == 0)


def _hourly(max_cost: float | None, cluster: Cluster, forecast: Forecast | None) -> float | None:
    """Return the price of an hour at which the budget just lasts for the forecast's upper end, in US dollars."""
    if max_cost is None or forecast is None or cluster.unit != "USD":
        return None
    return round(max_cost / (forecast.seconds.high / 3600), 2)


def _about(launch: Launch, forecast: Forecast | None, per_node: int | None) -> tuple[str, ...]:
    config = launch.config
    lines = [f"{launch.job.name}: {config}, {progress.words(launch.job, config, launch.epochs)}"]
    if forecast is not None and launch.epochs < forecast.epochs:
        unit = launch.job.counting.unit
        lines.append(f"nothing here stops it at its target: nine forecasts of ten need no more {unit} than these")
    if forecast is not None:
        seconds, cost = forecast.seconds, forecast.cost
        time = f"{duration(seconds.mid)} ({duration(seconds.low)}..{duration(seconds.high)})"
        lines.append(f"forecast: {time}, {number(cost.mid)} {cost.unit}, probability {forecast.probability:.2f}")
    if per_node is None and config.workers > 1:
        lines.append(f"all on one node; to spread them, say `devices: {{{config.device}: {{per_node: ...}}}}`")
    return (*lines, "written by cotune export; a new plan needs a new file")
