"""Secrets out of what is kept: `***` in the place of tokens, passwords and keys.

A value is secret by the name before it (`--token X`, `API_KEY=X`, `password: X`, an environment
variable), by its place (the password of a URL, what follows `Bearer`) or by its own shape (the
keys of clouds and services, PEM blocks, signed tokens). Words that training scripts use all day
are left alone: tokenizers, numbers of tokens, key points, a `KeyError`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from cotune.types import Job

MASK = "***"
_WORD = (
    r"(?:token(?!i[sz])|secret|passw|passphrase|credential|cookie"
    r"|(?:api|access|account|private|auth|signing|encryption|shared)[_-]?keys?(?![a-z])"
    r"|(?<![a-z])(?:keys?|pass|pwd|auth|authorization|sig|signature)(?![a-z]))"
)
_SECRET = re.compile(_WORD, re.IGNORECASE)
_COUNT = re.compile(r"tokens|(?<![a-z])pass(?![a-z])", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.eE+_-]+[kKmMbB]?")
_URL_PASSWORD = re.compile(r"(?<![\w+.-])(\w[\w+.-]*://[^\s/:@]*):[^\s/]+@")
_URL_TOKEN = re.compile(r"(https?://)[^\s/:@]+@", re.IGNORECASE)
_SCHEME = r"(?:bearer|basic|digest|negotiate|token|apikey)\s+"
_HEADER = re.compile(rf"(\bauthorization[\"']?\s*[:=]\s*[\"']?)(?:({_SCHEME})?[^\s'\"]+)", re.IGNORECASE)
_BEARER = re.compile(r"(\bbearer\s+)[^\s'\"]+", re.IGNORECASE)
_LOGIN = re.compile(  # what some programs take in their own way
    r"(\blogin\s+\S+\s+password\s+|\bsshpass\s+-p\s*|\b(?:curl|wget)\b[^|;\n]{0,500}?\s(?:-u|--user)[\s=]*[^\s:]+:)"
    r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"]+)",
    re.IGNORECASE,
)
_USER = re.compile(r"([^:]+):.+", re.DOTALL)
_PEM = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----).*?(?:(-----END [A-Z ]*-----)|\Z)", re.DOTALL)
_SHAPES = re.compile(
    "|".join(
        (
            r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",  # AWS
            r"AIza[\w-]{30,}|ya29\.[\w-]{10,}|GOCSPX-[\w-]{20,}",  # Google
            r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}",  # GitHub, GitLab
            r"hf_[A-Za-z0-9]{20,}|sk-[\w-]{16,}|xox[abeprs]-[\w-]{10,}",  # Hugging Face, OpenAI and its like, Slack
            r"npm_[A-Za-z0-9]{30,}|pypi-[\w-]{16,}|dapi[0-9a-f]{32}|dop_v1_[0-9a-f]{40,}",
            r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",  # signed tokens (JWT)
        )
    ).join((r"(?<![\w-])(?:", r")(?![\w-])"))
)
_HOOK = re.compile(r"(hooks\.slack\.com/services/)[\w/-]+", re.IGNORECASE)
_VALUE = r"""(?P<value>\*\*\*(?=$|[\s&;,'"}\])\\])|\\"(?:(?!\\").)*\\"|"(?:\\.|[^"\\])*"|'[^']*'|[^\s&;,'"]+)"""
# NAME=value, --name value and "name": value; a space alone tells nothing: "the token expired" is prose.
_NAME = rf"(?<![\w.-])(?P<name>[\w.-]{{0,100}}?{_WORD}[\w.-]{{0,100}})"
_GIVEN = re.compile(rf"""{_NAME}(?P<sign>=|%3D|\\?["']\s*:\s*|\s+){_VALUE}""", re.IGNORECASE)
# name: value, as YAML and headers have it, where the secret word ends the name: a TokenError is told.
_LINE = re.compile(
    rf"(?<![\w.-])(?P<name>(?!keys?:)[\w.-]{{0,100}}?(?:{_WORD}|password|passwd)s?(?:[_-]id)?)(?P<sign>\s*:\s+){_VALUE}",
    re.IGNORECASE,
)


def secret(name: str, value: str) -> bool:
    """Return whether a name says that its value is nobody's business."""
    counted = _COUNT.search(name) is not None and _NUMBER.fullmatch(value) is not None
    return _SECRET.search(name) is not None and not counted


def text(words: str) -> str:
    """Return a text with its secrets masked: URLs, `NAME=value`, `--name value`, `Bearer x`, keys by their shape."""
    masked = _PEM.sub(lambda block: f"{block[1]}{MASK}{block[2] or ''}", words)
    masked = _URL_PASSWORD.sub(rf"\1:{MASK}@", masked)
    masked = _URL_TOKEN.sub(rf"\1{MASK}@", masked)
    masked = _HEADER.sub(lambda given: f"{given[1]}{given[2] or ''}{MASK}", masked)
    masked = _BEARER.sub(rf"\1{MASK}", masked)
    masked = _LOGIN.sub(rf"\1{MASK}", masked)
    masked = _HOOK.sub(rf"\1{MASK}", _SHAPES.sub(MASK, masked))
    return _LINE.sub(_given, _GIVEN.sub(_given, masked))


def command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command with its secrets masked, also where flag and value are two words."""
    web = bool(words) and words[0].rpartition("/")[2] in ("curl", "wget")
    return tuple(
        _USER.sub(rf"\1:{MASK}", word) if web and before in ("-u", "--user") else _word(before, word)
        for before, word in zip(("", *words), words, strict=False)
    )


def environment(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return environment variables with the secret values masked."""
    return tuple((name, MASK if secret(name, value) else text(value)) for name, value in pairs)


def job(given: Job) -> Job:
    """Return a job fit to be kept; its fingerprint is no longer the real one."""
    return replace(given, command=command(given.command), env=environment(given.env), where=text(given.where))


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
