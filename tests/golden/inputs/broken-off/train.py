"""Break off in the second epoch, the first time."""

import sys
from pathlib import Path

before = Path("broken")
for epoch in range(1, int(sys.argv[2]) + 1):
    if epoch == 2 and not before.exists():
        before.touch()
        sys.exit("broken off")
    print(f"epoch {epoch} accuracy {0.9 - 0.7 / (1 + epoch):.4f}", flush=True)
