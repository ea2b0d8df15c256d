"""The queue over HTTP, in the words of the verbs: `cotune serve --listen` answers under `/api/v1/`.

    request ─▶ gate (host, size, token) ─▶ routes (scope, team, folder) ─▶ service.queue.Queue ─▶ JSON, or events

Nothing here decides: the queue does, for the command line too.
"""
