"""`cotune init`: a job file to start from, and a place for its samples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cotune.cli.help import OUTPUT, flag
from cotune.cli.options import Command, Examples, Json, Name
from cotune.cli.output import emit_json, refuse_overwriting, say, writing
from cotune.errors import UsageError
from cotune.init.draft import draft, missing_script
from cotune.jobfile import settings as job_settings
from cotune.jobfile.command import line, without_launcher
from cotune.safety.private import make_folder
from cotune.store.location import PROJECT_FOLDER


def init(
    command: Command = None,
    name: Name = None,
    examples: Examples = None,
    force: Annotated[bool, flag(OUTPUT, "--force", help="Write over an existing cotune.yaml.")] = False,
    json: Json = False,
) -> None:
    """Write a cotune.yaml to start from. A .cotune folder beside it holds the samples.

    cotune init -- python train.py --batch-size {batch_size} --epochs {epochs}
    cotune init --examples 60000 -- torchrun train.py
    """
    file = Path.cwd() / job_settings.FILE_NAME
    refuse_overwriting(file, force=force)
    given = tuple(command or ("python", "train.py", "--batch-size", "{batch_size}", "--epochs", "{epochs}"))
    own = without_launcher(given)
    drafted = draft(own, Path.cwd(), name or Path.cwd().name, examples, len(os.sched_getaffinity(0)))
    words, text = drafted.command, drafted.text
    try:
        job_settings.loads(text, {}, "the command", Path.cwd())
    except UsageError as error:
        if (missing := missing_script(own, Path.cwd())) is None:
            raise
        raise UsageError(f"no script {missing!r} in {Path.cwd()}, so nothing could be read of it; {error}") from None
    folder = Path.cwd() / PROJECT_FOLDER
    with writing(file):
        file.write_text(text, encoding="utf-8")
        make_folder(folder)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    if json:
        emit_json("init", {"file": str(file), "run": list(words), "store": str(folder)})
    else:
        say(f"wrote {file.name}: look at target, search and schedule, and at pattern if it never calls cotune.report")
        for remark in drafted.remarks:
            say(remark)
        if own != given:
            say(f"cotune starts the workers itself, so {given[0]} was left out: run is {line(words)}")
        level = drafted.open_target
        what = f"a level for the target (in {file.name}, or --target '{level}')" if level else f"target in {file.name}"
        first = f"{what}, then " if drafted.lacks_target else ""
        say(f"next: {first}cotune profile, then cotune plan, then cotune run")
