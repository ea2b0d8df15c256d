"""Pages that the code writes itself: one per algorithm, from its docstrings, every verb with its flags, every name.

MkDocs calls `on_files` before it builds. What is not in a docstring cannot be in these
pages, and what is there cannot be forgotten in them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import cotune
from cotune import registry
from cotune.cli.app import app
from cotune.errors import CotuneError

TITLES = {kind: folder.capitalize() for kind, folder in registry.KINDS.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that are written by hand."""
    pages = {"algorithms/index.md": _overview(), "reference/verbs.md": _verbs(), "reference/names.md": _names()}
    pages |= {f"algorithms/{kind}/{name}.md": _page(kind, name) for kind in TITLES for name in registry.names(kind)}
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def _overview() -> str:
    parts = ["# Every algorithm", "Each is one file. `cotune algorithms` lists them too."]
    for kind, title in TITLES.items():
        rows = [f"| [`{name}`]({kind}/{name}.md) | {registry.summary(kind, name)} |" for name in registry.names(kind)]
        parts.append("\n".join([f"## {title}", "", "| name | what it does |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


def _page(kind: str, name: str) -> str:
    found = registry.describe(kind, name)
    parts = [
        f"# {name}",
        f"{kind.capitalize()} in `src/{found.module.replace('.', '/')}.py`.",
        found.text,
        found.idea,
    ]
    if found.settings:
        rows = [f"| `{setting}` | `{default}` |" for setting, default in found.settings]
        parts.append("\n".join(["## Settings", "", "| name | default |", "| --- | --- |", *rows]))
        first, value = found.settings[0]
        parts.append(f"Settings follow the name: `{name}({first}={value})`.")
    return "\n\n".join(parts)


def _verbs() -> str:
    parts = ["# Every verb and flag", "All verbs take `--help`; all that print results take `--json`."]
    for name, command in _inner(typer.main.get_command(app)).items():
        parts += _verb(f"cotune {name}", command, "##")
    codes = {0: "Done.", 1: "Something unexpected: please report it."}
    codes |= {kind.exit_code: (kind.__doc__ or "").partition("\n")[0] for kind in CotuneError.__subclasses__()}
    rows = [f"| {code} | {codes[code]} |" for code in sorted(codes)]
    parts.append("\n".join(["## Exit codes", "", "| code | meaning |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


def _inner(command: Any) -> dict[str, Any]:
    """Return the verbs below a verb, if it has any."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else ()
    return {name: command.get_command(None, name) for name in names}


def _verb(words: str, command: Any, heading: str) -> Iterator[str]:
    yield f"{heading} {words}"
    yield inspect.cleandoc(getattr(command.callback, "__doc__", None) or command.help or "")
    for name, inner in _inner(command).items():
        yield from _verb(f"{words} {name}", inner, heading + "#")
    rows = [row for parameter in command.params if (row := _flag(parameter))]
    if rows:
        yield "\n".join(["| flag | what it does | default |", "| --- | --- | --- |", *rows])


def _flag(parameter: Any) -> str:
    if parameter.name == "help":
        return ""
    spelled = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts) if word.startswith("-"))
    words = (getattr(parameter, "help", None) or "").replace("|", "\\|")
    default = "" if parameter.default in (None, False, ()) or callable(parameter.default) else f"`{parameter.default}`"
    return f"| {spelled or f'`{parameter.name.upper()}`'} | {words} | {default} |"


def _names() -> str:
    """Return the page of every public name, with its signature and what it says of itself."""
    parts = ["# Every public name", "What `import cotune` offers. [The library](../library.md) shows how it is used."]
    for name in cotune.__all__:
        public = getattr(cotune, name)
        parts += [f"## cotune.{name}", _signature(name, public), _prose(public)]
        methods = vars(public).items() if inspect.isclass(public) and name in ("Project", "Plan") else ()
        for own, method in methods:
            if inspect.isfunction(method) and not own.startswith("_"):
                parts += [f"### {name}.{own}", _signature(own, method), _prose(method)]
    return "\n\n".join(parts)


def _signature(name: str, public: Any) -> str:
    if inspect.isclass(public) and issubclass(public, Exception):
        return f"An error; exit code {getattr(public, 'exit_code', 1)}."
    taken = [one for one in inspect.signature(public).parameters.values() if one.name != "self"]
    plain = [str(one).replace("cotune.", "") for one in taken if one.kind != one.VAR_KEYWORD]
    more = [f"**{one.name}" for one in taken if one.kind == one.VAR_KEYWORD]
    return f"```python\n{name}({', '.join([*plain, *more])})\n```"


def _prose(public: Any) -> str:
    return inspect.cleandoc(public.__doc__ or "")
