"""`cotune init`: a job file to start from, and a place for its samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import Command, Examples, Json, Name

TEMPLATE = """\
# What is trained, what is asked, what may be chosen. Every field is optional; flags win over this file.
name: {name}
run: {run}
{examples}
target: {{metric: accuracy, at_least: 0.95}}
deadline: 10m
max_epochs: 30
search: {{workers: 1..{cores}, batch_size: [16, 32, 64, 128, 256]}}
{lr}lr: {{at: 0.05, global_batch: 64, rule: linear}}     # fills {{lr}}: linear, sqrt or fixed
# pattern: 'epoch (?P<epoch>\\d+) .*accuracy (?P<accuracy>[\\d.]+)'   # when the script does not call cotune.report
budget: {{profile: 3m}}
engine: local
"""


def init(
    command: Command = None,
    name: Name = None,
    examples: Examples = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing cotune.yaml.")] = False,
    json: Json = False,
) -> None:
    """Write a cotune.yaml to start from. A .cotune folder beside it keeps the samples."""
    import os

    from cotune.cli.output import emit_json, refuse_overwriting, say, writing
    from cotune.jobfile import settings as job_settings
    from cotune.jobfile.command import line, without_launcher
    from cotune.private import make_folder
    from cotune.store.location import PROJECT_FOLDER

    file = Path.cwd() / job_settings.FILE_NAME
    refuse_overwriting(file, force=force)
    given = tuple(command or ("python", "train.py", "--batch-size", "{batch_size}", "--epochs", "{epochs}"))
    words = without_launcher(given)
    text = TEMPLATE.format(
        name=_yaml(name or Path.cwd().name),
        run=_yaml(line(words)),
        examples=f"examples: {examples}" if examples else "# examples: 60000      # in one epoch of the training data",
        cores=len(os.sched_getaffinity(0)),
        lr="" if any("{lr}" in word for word in words) else "# ",
    )
    job_settings.loads(text, {}, "the command", Path.cwd())
    folder = Path.cwd() / PROJECT_FOLDER
    with writing(file):
        file.write_text(text, encoding="utf-8")
        make_folder(folder)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    if json:
        emit_json("init", {"file": str(file), "run": list(words), "store": str(folder)})
    else:
        say(f"wrote {file.name}: look at target and search, and at pattern if the script never calls cotune.report")
        if words != given:
            say(f"cotune starts the workers itself, so torchrun was left out: run is {line(words)}")
        say("next: cotune profile, then cotune plan, then cotune run")


def _yaml(text: str) -> str:
    """Return a text as YAML in one line, quoted only where it must be."""
    import yaml

    return yaml.safe_dump(text, width=10_000, allow_unicode=True).removesuffix("\n").removesuffix("\n...")
