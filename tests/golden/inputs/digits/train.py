"""Pretend to learn: a line an epoch, sooner right with small batches."""

import sys

batch, epochs = int(sys.argv[1]), int(sys.argv[2])
for epoch in range(1, epochs + 1):
    print(f"epoch {epoch} accuracy {0.9 - 0.7 / (1 + epoch) - batch / 2000:.4f}", flush=True)
