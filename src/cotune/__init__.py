"""cotune: how many workers, which batch size, which devices?"""

from cotune.reporting import report

__all__ = ["report"]
__version__ = "0.1.0"
