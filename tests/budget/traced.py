"""Run the command line and write which functions and files of cotune it ran through.

    python traced.py OUT.json VERB WORD...

Functions written with `def` are counted, in this process and its threads; lambdas, comprehensions and class bodies are
not. What a worker process runs is not counted either: it is the job's side.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

import cotune
from cotune.cli.main import main

SOURCE = str(Path(cotune.__file__).parent)
FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS


def traced(words: list[str]) -> set[CodeType]:
    """Return the code of every function that was called."""
    seen: set[CodeType] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    sys.argv = ["cotune", *words]
    threading.setprofile(called)
    sys.setprofile(called)
    try:
        main()
    except SystemExit as left:
        if left.code:
            print(f"traced: exit {left.code}", file=sys.stderr)
    finally:
        sys.setprofile(None)
    return {code for code in seen if code.co_filename.startswith(SOURCE) and _is_function(code)}


def _is_function(code: CodeType) -> bool:
    return code.co_flags & FUNCTION == FUNCTION and not code.co_name.startswith("<")


if __name__ == "__main__":
    out = Path(sys.argv[1])
    found = traced(sys.argv[2:])
    functions = sorted(f"{code.co_filename.removeprefix(SOURCE)}:{code.co_qualname}" for code in found)
    files = {code.co_filename for code in found}
    out.write_text(json.dumps({"functions": len(found), "files": len(files), "names": functions}))
