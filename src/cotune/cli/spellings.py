"""Spellings of verbs that moved: they keep working and are not shown."""

from __future__ import annotations

from collections.abc import Sequence

_VALUE_MOVES = {  # verb and flag whose value is now the first argument of another verb
    ("predict", "--model"): ("model", "predict"),
    ("profile", "--layers"): ("pipeline", "profile"),
    ("profile", "--random-layers"): ("model", "layers"),
    ("run", "--placement"): ("pipeline", "run"),
}


def present(arguments: Sequence[str]) -> list[str]:
    """Return a command line as it is spelt now."""
    words = list(arguments)
    own = words.index("--") if "--" in words else len(words)
    if words[:1] == ["inspect"]:
        return ["model", *words]
    if words[:1] == ["doctor"] and "--calibrate" in words[:own]:
        return ["model", "calibrate", *(word for word in words[1:] if word != "--calibrate")]
    if words[:2] and words[0] == "cluster" and len(words) > 1:
        return words[1:]
    for (verb, flag), verbs in _VALUE_MOVES.items():
        if words[:1] != [verb]:
            continue
        for place, word in enumerate(words[:own]):
            if word == flag and place + 1 < own:
                return [*verbs, words[place + 1], *words[1:place], *words[place + 2 :]]
            if word.startswith(f"{flag}="):
                return [*verbs, word.partition("=")[2], *words[1:place], *words[place + 1 :]]
    return words
