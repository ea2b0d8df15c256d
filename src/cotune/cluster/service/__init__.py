"""The live service: a queue of jobs in the store, and the one process that works it off.

    submit ─▶ queued ─▶ profiling ─▶ waiting ◀─▶ running ─▶ met, missed, done, failed
                                        └───── stopping ──┘        declined, cancelled

`queue.Queue` is the way in for the command line and the HTTP API; it needs no running service. `states` is what a
job may become, without a clock or a database. All that follows a submission is the leader's doing.
"""
