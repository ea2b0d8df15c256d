"""What one training step of a model does, counted without running it.

    Workload ─count▶ Counts ─predict▶ seconds, memory, cost

`trace` walks one step over tensors that have shapes but no numbers, `formulas` says what each
operator computes, `profiler` measures the same step for real. Whose step it is, a user says by a
name (`workloads.named`).
"""
