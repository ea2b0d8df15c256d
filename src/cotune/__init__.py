"""cotune: how many workers, which batch size, which devices?"""

from cotune.worker.report import report

__all__ = ["report"]
__version__ = "0.1.0"
