"""cotune's callbacks in another Python than cotune's own: found on PYTHONPATH, which cotune sets for its workers.

Only the package cotune is made importable, from where it lies, and not what is installed beside it. A `sitecustomize`
that this one hides is run too.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_PACKAGE = _HERE.parent.parent


def _import_cotune() -> None:
    """Make cotune importable where this Python has none."""
    if importlib.util.find_spec("cotune") is not None:
        return
    spec = importlib.util.spec_from_file_location(
        "cotune", _PACKAGE / "__init__.py", submodule_search_locations=[str(_PACKAGE)]
    )
    if spec is not None and spec.loader is not None:
        sys.modules["cotune"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _run_hidden() -> None:
    """Run the `sitecustomize` that would have been found without this one."""
    others = [place for place in sys.path if Path(place).resolve() != _HERE.resolve()]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_run_hidden()
if "COTUNE_TRAINER" in os.environ:
    _import_cotune()
    from cotune.callbacks import injected

    injected.install()
