"""`cotune status`: show one submitted job: its state, forecast and what came of it."""

from __future__ import annotations

from cotune.cli.options import Json, StoreUrl
from cotune.cli.output import emit_json, say
from cotune.cluster.service.documents import status_document
from cotune.cluster.verbs._queue import JobId, eta_words, open_queue
from cotune.units import counted, duration, number


def status(job: JobId, store: StoreUrl = None, json: Json = False) -> None:
    """Show where a job stands, what is expected of it, and in the end forecast against measured."""
    with open_queue(store) as queue:
        document = status_document(queue.get(job), queue.now())
    if json:
        emit_json("status", {"job": document})
        return
    target = document["target"]
    lines = {
        "job": f"{document['id']} {document['name']}",
        "state": document["state"] + (" (held)" if document["held"] else "") + f": {document['reason']}",
        "target": "" if target is None else " ".join(str(part) for part in target.values()),
        "deadline": "" if document["deadline"] is None else f"{duration(document['deadline'])} after it was submitted",
        "workers": document["workers"] or "",
        "ends in": eta_words(document),
        "starts": f"{document['fence']}, {document['restarts']} of them after a loss" if document["fence"] else "",
        "file": document["file"],
    }
    result, forecast = document["result"] or {}, document["forecast"] or {}
    expected = (forecast.get("forecast") or {}).get("seconds")
    if expected:
        lines["forecast"] = f"{duration(expected['mid'])} ({duration(expected['low'])}..{duration(expected['high'])})"
    if result.get("trained_seconds") is not None:
        lines["measured"] = f"{duration(result['trained_seconds'])} of training in {counted(result['starts'], 'start')}"
        lines["cost"] = f"{number(result['cost']['value'], 3)} {result['cost']['unit']}"
    for name, words in lines.items():
        if words != "":
            say(f"{name:<9} {words}")
