"""A room of its own: many jobs on one cluster, simulated and for real.

policy, policies/   what a policy is asked, and one file for each
loop                wait, decide (`ordered_queue`, `round`), act, whatever the clock; `node_packing` gives nodes
simulate/, traces/  a clock that jumps, and the jobs to play on it
live, arrivals      the engine's clock, and the jobs that come (`live_job`)
service/, api/      the queue in a store, who works it off, and both over HTTP
ledger              how `joint` decides, by `promises` (room set aside) and `candidates` (what a job can run in)
"""
