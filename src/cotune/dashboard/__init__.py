"""A store in the browser: jobs, live runs, samples, plans, placements, and what if.

    store ─┬─ views ──────────────▶ documents ─▶ pages in plain JavaScript
           ├─ samples ─ learning ─▶ outlook, fitted once ─ what_if ─▶ a plan in milliseconds
           └─ pulse ──────────────▶ server-sent events

It reads the store and nothing else, so it outlives every cluster and can be pointed at the
store of a colleague. Nothing is ever written.
"""
