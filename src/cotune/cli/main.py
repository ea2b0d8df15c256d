"""The `cotune` program: from the first moment on, whatever happens ends as one line and an exit code.

Reading the verbs takes a while, and a user may press Ctrl-C before it is over, so this file
imports nothing of weight and reads them where an interrupt is awaited already.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from cotune.errors import CotuneError, Infeasible, Interrupted, NotFound, UsageError
from cotune.safety.printable import printable

_REFUSALS = (  # of the system, which a user can do something about
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM),
    *(errno.EROFS, errno.ENOSPC),
)
_INTERRUPTED = "interrupted; what was measured is stored"


def main() -> None:
    """Run the command line; errors a user can act on end as one line and their exit code."""
    try:
        _open_streams()
        from cotune.cli.app import app

        app()
    except CotuneError as error:
        _leave(error)
    except OSError as error:
        if error.errno not in _REFUSALS:
            _document(error)
            raise
        _leave(NotFound(f"cannot use {str(error.filename)[:200]!r}: {error.strerror}"))
    except KeyboardInterrupt:
        _document(Interrupted(_INTERRUPTED))
        _exit(Interrupted.exit_code)
    except SystemExit as leaving:
        parsing = getattr(leaving.__context__, "format_message", None)  # the parser has said on stderr what is wrong
        if leaving.code == UsageError.exit_code and parsing is not None:
            _document(UsageError(parsing()))
        if leaving.code == Interrupted.exit_code:
            _document(Interrupted(_INTERRUPTED))
        _exit(leaving.code)
    except Exception as error:  # a bug: reported on stdout as well, then raised
        _document(error)
        raise


def _open_streams() -> None:
    """Have both outputs open, and able to say any letter in any encoding."""
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:  # else a file of ours would take a closed one's number
        pass
    os.close(spare)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115  # as long as we live
        with contextlib.suppress(AttributeError):  # a test's own stream
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _leave(error: CotuneError) -> NoReturn:
    """End with an error that a user can act on."""
    _document(error)
    with contextlib.suppress(OSError):
        print(printable(f"cotune: {_told(error)}", keep="\n"), file=sys.stderr)
    _exit(error.exit_code)


def _exit(code: object) -> NoReturn:
    """End with this code, unless what was printed cannot be written."""
    exec("")  # else Ctrl-C within an exec() of others makes Python end by the signal instead
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes once more
        if not code and not isinstance(error, BrokenPipeError):
            _leave(CotuneError(f"cannot write the output: {error.strerror}"))
        code = code or CotuneError.exit_code
    sys.exit(code)  # type: ignore[arg-type]


def _document(error: Exception) -> None:
    """Print an error as the one document on stdout, where one was asked for."""
    ours = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    if "--json" in ours:
        from cotune.cli.output import emit_json

        code = getattr(error, "exit_code", CotuneError.exit_code)
        facts: dict[str, object] = {"kind": type(error).__name__, "message": _words(error), "exit_code": code}
        document: Any = {}
        if isinstance(error, Infeasible):
            from cotune.remedies import remedies

            facts |= error.document([_nearest(near) for near in error.nearest]) | {"remedies": remedies(error)}
            document = error.facts.get("document", {})
        if isinstance(known := getattr(error, "known", None), Mapping):
            facts["known"] = dict(known)
        with contextlib.suppress(OSError, CotuneError):  # nobody reads it
            emit_json("plan" if document else "error", {**document, "error": facts})


def _words(error: Exception) -> str:
    """Return what an error says, with the flag that helps."""
    if not isinstance(error, CotuneError) or not (error.remedy or error.facts):
        return str(error)
    from cotune.remedies import explained

    return explained(error)


def _told(error: CotuneError) -> str:
    """Return what is said of an error on a terminal: a refusal as a list, any other as a line."""
    if not isinstance(error, Infeasible):
        return _words(error)
    from cotune.remedies import listed

    return listed(error)


def _nearest(near: object) -> object:
    """Return a forecast that comes near a goal as a document."""
    from cotune.documents import forecast_document
    from cotune.types import Forecast

    return forecast_document(near) if isinstance(near, Forecast) else near
