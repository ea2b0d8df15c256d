"""Secrets out of what is kept: `***` in the place of tokens, passwords and keys.

A value is secret by the name before it (`--token X`, `API_KEY=X`, an environment
variable) or by its place (the password of a URL, what follows `Bearer`). Words that
training scripts use all day are left alone: tokenizers, numbers of tokens, key points.
"""

from __future__ import annotations

import re
from dataclasses import replace

from cotune.types import Job

MASK = "***"
_WORD = r"(?:token(?!i[sz])|secret|passw|passphrase|key(?!points?|frames?|board)|credential)"
_SECRET = re.compile(_WORD, re.IGNORECASE)
_COUNT = re.compile(r"tokens", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.eE+_-]+[kKmMbB]?")
_URL_PASSWORD = re.compile(r"(\w[\w+.-]*://[^\s/:@]*):[^\s/]+@")
_URL_TOKEN = re.compile(r"(https?://)[^\s/:@]+@", re.IGNORECASE)
_BEARER = re.compile(r"(\bbearer\s+)[^\s'\"]+", re.IGNORECASE)
# NAME=value, --name value and "name": value; a space alone tells nothing: "the token expired" is prose.
_NAME = rf"(?<![\w.-])(?P<name>[\w.-]*?{_WORD}[\w.-]*)"
_GIVEN = re.compile(
    rf"""{_NAME}(?P<sign>=|["']:\s*|\s+)(?P<value>"[^"]*"|'[^']*'|[^\s&;,'"]+)""",
    re.IGNORECASE,
)


def secret(name: str, value: str) -> bool:
    """Return whether a name says that its value is nobody's business."""
    counted = _COUNT.search(name) is not None and _NUMBER.fullmatch(value) is not None
    return _SECRET.search(name) is not None and not counted


def text(words: str) -> str:
    """Return a line with its secrets masked: URLs, `NAME=value`, `--name value`, `Bearer x`."""
    masked = _URL_PASSWORD.sub(rf"\1:{MASK}@", words)
    masked = _URL_TOKEN.sub(rf"\1{MASK}@", masked)
    masked = _BEARER.sub(rf"\1{MASK}", masked)
    return _GIVEN.sub(_given, masked)


def command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command with its secrets masked, also where flag and value are two words."""
    return tuple(_word(before, word) for before, word in zip(("", *words), words, strict=False))


def environment(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return environment variables with the secret values masked."""
    return tuple((name, MASK if secret(name, value) else text(value)) for name, value in pairs)


def job(given: Job) -> Job:
    """Return a job fit to be kept; its fingerprint is no longer the real one."""
    return replace(given, command=command(given.command), env=environment(given.env))


def _word(before: str, word: str) -> str:
    flagged = before.startswith("-") and not re.search(r"[=\s]", before)
    if flagged and not word.startswith("-") and secret(before, word):
        return MASK
    name, given, value = word.partition("=")
    if given and not re.search(r"[\s/?]", name) and secret(name, value):
        return f"{name}={MASK}"
    return text(word)


def _given(match: re.Match[str]) -> str:
    name, sign, value = match["name"], match["sign"], match["value"]
    if sign.isspace() and (not name.startswith("-") or value.startswith("-")):
        return match[0]
    return f"{name}{sign}{MASK}" if secret(name, value) else match[0]
