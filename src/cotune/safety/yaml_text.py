"""YAML of others, read within bounds: no depth, alias or letter in it can stop or poison the reader.

depth           at most 64 levels: a parser calls itself once for each
aliases         what they stand for, written out, at most 200,000 nodes; none that holds itself
keys            none written twice: the second would silently win
letters         no NUL and no halves of letters, which no file, program or database takes
words           as written: `true` and `false` alone are truth values, as in YAML 1.2, not `on`, `off`, `yes` and `no`
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_LEVELS = 64
MOST_NODES = 200_000
_TRUTH_TAG = "tag:yaml.org,2002:bool"
_TRUTH = re.compile("(?:true|True|TRUE|false|False|FALSE)$")


class NotYaml(ValueError):
    """A text that is not YAML, or not YAML within bounds; `line` counts from 1."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem)
        self.problem, self.line = problem, line


def read(text: str) -> Any:
    """Return what some YAML says, or raise `NotYaml`."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise NotYaml(problem, mark.line + 1 if mark else None) from None
    except (ValueError, OverflowError) as error:  # a date or a number that there is not: 2026-13-45, 0b
        raise NotYaml(" ".join(str(error).split()), None) from None


class _Loader(yaml.SafeLoader):
    """Safe YAML within the bounds above."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = 0
        self._sizes: dict[int, int] = {}  # of each node, aliases written out

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._level += 1
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark = event.start_mark
        if self._level > MOST_LEVELS:
            raise yaml.MarkedYAMLError(problem=f"more than {MOST_LEVELS} levels", problem_mark=mark)
        node = super().compose_node(parent, index)
        self._level -= 1
        if node is not None and id(node) not in self._sizes:
            if isinstance(event, yaml.AliasEvent):
                raise yaml.MarkedYAMLError(problem="an alias that holds itself", problem_mark=mark)
            self._sizes[id(node)] = self._size(node, mark)
        return node

    def _size(self, node: yaml.Node, mark: Any) -> int:
        """Return how many nodes there are from here on; those inside have been counted."""
        entries = () if isinstance(node, yaml.ScalarNode) else node.value
        parts = (part for entry in entries for part in (entry if isinstance(entry, tuple) else (entry,)))
        size = 1 + sum(self._sizes[id(part)] for part in parts)
        if size > MOST_NODES:
            raise yaml.MarkedYAMLError(
                problem=f"its aliases stand for more than {MOST_NODES:,} values", problem_mark=mark
            )
        return size

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value: str = super().construct_scalar(node)
        if any(char == "\0" or 0xD800 <= ord(char) < 0xE000 for char in value):
            raise yaml.MarkedYAMLError(problem="a NUL or half a letter in a text", problem_mark=node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is written twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    letter: [resolver for resolver in resolvers if resolver[0] != _TRUTH_TAG]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_TRUTH_TAG, _TRUTH, list("tTfF"))
