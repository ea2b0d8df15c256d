"""What one training step of a model does, counted without running it.

    MODEL ─find▶ Workload ─count▶ Counts ─predict▶ seconds, memory, cost

`models` finds what a user names, `trace` walks one step over tensors that have shapes but no
numbers, `formulas` says what each operator computes, `profiler` measures the same step for real.
"""
