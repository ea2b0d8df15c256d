"""`cotune why`: say why a submitted job stands where it does."""

from __future__ import annotations

from cotune.cli.options import Json, StoreUrl
from cotune.cli.output import emit_json, say
from cotune.cluster.service.documents import why_document
from cotune.cluster.verbs._queue import JobId, open_queue


def why(job: JobId, store: StoreUrl = None, json: Json = False) -> None:
    """Say why a job waits, was declined or failed, who is before it, and what happened to it last."""
    with open_queue(store) as queue:
        document = why_document(queue, queue.get(job))
    if json:
        emit_json("why", document)
        return
    say(document["words"])
    for other in document["ahead"]:
        say(f"  before it: {other['name']} ({other['id']}), {other['state']} on {other['workers']} workers")
    for event in document["events"]:
        say(f"  {event['at']} {event['state']}: {event['words']}")
