"""Who may do what over HTTP: a file of tokens, of which only hashes are kept.

    {"name": "ci", "scope": "submit", "team": "vision", "sha256": "..."}      one line each

    read      look at jobs, and follow what happens to them
    submit    also hand in, hold, release and cancel
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
from collections.abc import Iterable
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


EVERYBODY_HERE = Caller("", AccessScope.ADMIN)  # whoever asks from this machine where there are no tokens


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A line of the file."""

    name: str
    scope: AccessScope
    team: str
    sha256: str

    @property
    def caller(self) -> Caller:
        return Caller(self.name, self.scope, self.team)


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
            self._callers = {token.sha256: token.caller for token in read(self._path)}
            self._stamp = stamp


def read(path: Path) -> list[AccessToken]:
    """Return the tokens of a file; refuse one that others could have written or read."""
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
    return [_token(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def add(path: Path, name: str, scope: str, team: str) -> str:
    """Add a token to a file, and return it: it is told once, and kept nowhere."""
    known = read(path) if path.exists() else []
    if not name.strip() or not is_printable(name):
        raise UsageError(f"a token has a name of letters that show, not {name!r}: whose it is")
    if any(token.name == name for token in known):
        raise UsageError(f"a token named {name!r} is there already; revoke it first, or choose another name")
    if scope not in _ORDER:
        raise UsageError(f"no scope {scope!r}; there are {', '.join(_ORDER)}{suggestion(scope, _ORDER)}")
    token = secrets.token_urlsafe(_BYTES)
    _write(path, [*known, AccessToken(name, AccessScope(scope), team, _hash(token))])
    return token


def revoke(path: Path, name: str) -> None:
    """Take a token out of a file."""
    known = read(path)
    left = [token for token in known if token.name != name]
    if len(left) == len(known):
        raise NotFound(f"no token {name!r} in {path}; there are {', '.join(token.name for token in known) or 'none'}")
    _write(path, left)


def _write(path: Path, tokens: Iterable[AccessToken]) -> None:
    """Put another file in its place, so that a reader never sees half of one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    private.write(beside, "".join(json.dumps(asdict(token)) + "\n" for token in tokens))
    beside.replace(path)


def _token(line: str, where: str) -> AccessToken:
    try:
        found = json.loads(line)
        return AccessToken(str(found["name"]), AccessScope(found["scope"]), str(found["team"]), str(found["sha256"]))
    except (ValueError, KeyError, TypeError):
        raise InvalidFile(f"{where}: not a token, which has a name, a scope, a team and a sha256") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
