"""Whether a service could start here: its store, its policy, its cluster, and who leads already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import delete, false

from cotune.cluster.service.daemon import ServiceOptions
from cotune.cluster.service.documents import leader_document
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.states import FINAL
from cotune.store import open_store, schema
from cotune.store.schema import leaders


def checked(url: str | None, options: ServiceOptions) -> dict[str, Any]:
    """Return what a service would work with, or raise what keeps it from starting."""
    with open_store(url, Path()) as store:
        store.transact(lambda connection: connection.execute(delete(leaders).where(false())))  # may it be written?
        queue = Queue(store)
        counts, leader = queue.counts(), queue.leader()
        rules = queue.rules().changed(options.policy)
        return {
            "store": store.label,
            "version": schema.VERSION,
            "policy": rules.policy,
            "slots": options.size,
            "open": sum(count for state, count in counts.items() if state not in FINAL),
            "leader": leader_document(leader) if leader and leader.is_alive else None,
        }
