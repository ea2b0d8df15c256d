"""Who may do what over HTTP: a file of tokens, of which only hashes are kept.

    {"name": "ci", "scope": "submit", "team": "vision", "sha256": "..."}      one line each

    read      look at jobs, and follow what happens to them
    submit    also submit, hold, release and cancel
    admin     also change priorities, and the rules of the service

A token of a team sees and touches the jobs of that team alone. Tokens are 32 random bytes, so that a plain hash is
enough: there is nothing to guess. The file is looked at before every answer; whoever is taken out is out at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from cotune.errors import InvalidFile, NotFound, UsageError, suggestion
from cotune.safety import private
from cotune.safety.printable import is_printable

_BYTES = 32
_OTHERS = 0o077


class AccessScope(StrEnum):
    """What a caller may do; each holds those before it."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


_ORDER = tuple(AccessScope)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    name: str
    scope: AccessScope
    team: str = ""  # of all teams if empty

    def may(self, scope: AccessScope) -> bool:
        """Return whether a caller has a scope, or one that holds it."""
        return _ORDER.index(self.scope) >= _ORDER.index(scope)


class TokenFile:
    """The tokens that are let in, as the file says now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._callers: dict[str, Caller] = {}

    def caller(self, token: str) -> Caller | None:
        """Return whose token it is, None if nobody's."""
        self._look()
        return self._callers.get(_hash(token))

    def _look(self) -> None:
        try:
            found = self._path.stat()
        except OSError:
            self._stamp, self._callers = None, {}  # no file, no rights
            return
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self._callers = read(self._path)
            self._stamp = stamp


def read(path: Path) -> dict[str, Caller]:
    """Return the callers of a file by the hashes of their tokens; refuse one that others could have written or read."""
    try:
        with path.open(encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if not stat.S_ISREG(mode) or mode & _OTHERS:
                raise InvalidFile(f"{path} must be a file for its owner alone: chmod 600 {path}")
            lines = opened.read().splitlines()
    except FileNotFoundError:
        raise NotFound(f"no tokens at {path}; `cotune token NAME --tokens {path}` makes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"cannot read {path}: {error}") from None
    return dict(_token(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip())


def add(path: Path, name: str, scope: str, team: str) -> str:
    """Add a token to a file, and return it: it is told once, and kept nowhere."""
    known = read(path) if path.exists() else {}
    if not name.strip() or not is_printable(name):
        raise UsageError(f"a token has a name of letters that show, not {name!r}: whose it is")
    if any(caller.name == name for caller in known.values()):
        raise UsageError(f"a token named {name!r} is there already; revoke it first, or choose another name")
    if scope not in _ORDER:
        raise UsageError(f"no scope {scope!r}; there are {', '.join(_ORDER)}{suggestion(scope, _ORDER)}")
    token = secrets.token_urlsafe(_BYTES)
    _write(path, known | {_hash(token): Caller(name, AccessScope(scope), team)})
    return token


def revoke(path: Path, name: str) -> None:
    """Take a token out of a file."""
    known = read(path)
    left = {sha256: caller for sha256, caller in known.items() if caller.name != name}
    if len(left) == len(known):
        raise NotFound(
            f"no token {name!r} in {path}; there are {', '.join(one.name for one in known.values()) or 'none'}"
        )
    _write(path, left)


def _write(path: Path, callers: Mapping[str, Caller]) -> None:
    """Put another file in its place, so that a reader never sees half of one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    lines = [json.dumps(asdict(caller) | {"sha256": sha256}) for sha256, caller in callers.items()]
    private.write(beside, "".join(line + "\n" for line in lines))
    beside.replace(path)


def _token(line: str, where: str) -> tuple[str, Caller]:
    try:
        found = json.loads(line)
        return str(found["sha256"]), Caller(str(found["name"]), AccessScope(found["scope"]), str(found["team"]))
    except (ValueError, KeyError, TypeError):
        raise InvalidFile(f"{where}: not a token, which has a name, a scope, a team and a sha256") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
