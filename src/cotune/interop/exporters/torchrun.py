"""torchrun: a shell script with one command; on several nodes it is run once on each."""

from __future__ import annotations

import shlex

from cotune.interop.export import PORT, LaunchOrder, exports, going_on, torchrun_words

USE = "sh {file}"


def write(order: LaunchOrder) -> str:
    """Return the script; several nodes meet at the one named by HEAD."""
    torchrun, job = torchrun_words(order)
    flags = ["--standalone"]
    lines = ["#!/bin/sh", order.head.rstrip(), f"cd {shlex.quote(order.folder)}", *exports(order), *going_on(order)]
    if order.nodes > 1:
        lines.append(': "${HEAD:?must name the first node: run this on each node with HEAD=its-address}"')
        flags = [f"--nnodes={order.nodes}", "--rdzv-backend=c10d", f"--rdzv-id={order.label}"]
    command = [*torchrun, *flags, f"--nproc-per-node={order.per_node}"]
    head = [f'--rdzv-endpoint="$HEAD:{PORT}"'] if order.nodes > 1 else []
    return "\n".join([*lines, " ".join(["exec", shlex.join(command), *head, shlex.join(job)]), ""])
