"""Ask the HTTP API of the service for everything its OpenAPI document allows, and much that it does not.

    python benchmarks/api_fuzz.py [--examples 100] [--seed 1] [--schemathesis PROGRAM]

schemathesis (a program of its own: pip install schemathesis, in any environment) makes requests from the document that
`/api/v1/openapi.json` publishes, with a token that may do everything, one that may only read, and none. An answer of
500 or more fails, and so does one that the document does not tell of. No service works the queue off: nothing that is
handed in is run.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cotune.cluster.api import tokens
from cotune.cluster.api.listening import answering
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.store import open_store

TEXT = "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nepochs: 2\n"
CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance"


def asked(program: str, address: str, token: str | None, examples: int, seed: int) -> int:
    """Have one round of requests made; return schemathesis's exit code."""
    command = [program, "run", f"{address}openapi.json", "--checks", CHECKS, "--max-examples", str(examples)]
    command += ["--seed", str(seed), "--request-timeout", "20", "--generation-database", "none", "--phases"]
    command += ["examples,coverage,fuzzing"]  # /events and /wait are asked for no longer than they allow
    command += ["--exclude-path-regex", "events|wait"]
    command += ["--header", f"Authorization: Bearer {token}"] if token else []
    return subprocess.run(command, check=False, cwd=tempfile.gettempdir()).returncode


def main() -> None:
    """Ask in three roles, and leave with 1 if one of them found a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=100, help="for each operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemathesis", default=shutil.which("schemathesis"), help="the program")
    given = parser.parse_args()
    if given.schemathesis is None:
        sys.exit("schemathesis is not on the PATH: pip install schemathesis, and name it by --schemathesis")
    folder = Path(tempfile.mkdtemp(prefix="api-fuzz-"))
    held, store = folder / "tokens", str(folder / "store.db")
    secrets = {scope: tokens.add(held, scope, scope, "") for scope in ("admin", "read")}
    with open_store(store) as opened:
        for _ in range(3):
            Queue(opened).submit(JobSnapshot.written(TEXT, folder, "cotune.yaml")[0])
    failed = []
    with answering("0", held, (folder,), store) as address:
        for role in ("admin", "read", None):
            if asked(given.schemathesis, address, secrets.get(role or ""), given.examples, given.seed):
                failed.append(role or "nobody")
    print(f"faults found as: {', '.join(failed) or 'none of admin, read and nobody'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
