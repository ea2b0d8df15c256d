"""Count what a reader of the tree has to hold in mind.

tokens         of Python code: names, numbers, strings, operators; no comments, docstrings or white space
records        classes decorated with dataclass, or derived from NamedTuple, TypedDict or pydantic's BaseModel
constants      numbers bound to a name at module level, and numeric defaults of the fields of records
repeated       file names (without folder) that occur more than once, `__init__` left out
cycles         groups of modules that import each other, lazy and TYPE_CHECKING imports counted
dialect        words of a private vocabulary in docstrings, comments, strings and pages, per thousand words
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIALECT = re.compile(
    r"\b(told|tells?|telling|alike|apart|so many|as many as|goes? on|going on|went on|gone on|get on|hand(?:ed|s)? in|"
    r"work(?:s|ed)? off|stands? for|the more so|by itself|of its own|of their own|nobody|whoever|at last|in vain|"
    r"thrift\w*|on the way|way|kept|keeps|is due|dearer|dear|dearest|quicker than|lies? apart|"
    r"made of|luck\w*|put right)\b",
    re.IGNORECASE,
)
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
NO_CODE |= {tokenize.ENCODING, tokenize.ENDMARKER}
RECORD_WORDS = {"dataclass", "NamedTuple", "TypedDict", "BaseModel"}
SHORT_FILE = 60  # lines

Imports = Mapping[str, set[str]]


@dataclass(frozen=True)
class Source:
    """One Python file, parsed once."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def module(self) -> str:
        parts = list(self.path.with_suffix("").parts)
        parts = parts[parts.index("src") + 1 :]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def docstrings(self) -> Sequence[ast.Constant]:
        return list(_docstrings(self.tree))

    def tokens(self) -> Iterator[tokenize.TokenInfo]:
        """Yield every token of code; docstrings are prose."""
        prose = {line for doc in self.docstrings for line in range(doc.lineno, (doc.end_lineno or doc.lineno) + 1)}
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in NO_CODE and token.start[0] not in prose:
                yield token

    def prose(self) -> Iterator[str]:
        """Yield docstrings, comments, and strings of more than one word."""
        for doc in self.docstrings:
            yield str(doc.value)
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.value

    def imported(self, known: set[str]) -> set[str]:
        """Return the modules of the package that the file imports, wherever it does so."""
        found: set[str] = set()
        package = self.module if self.path.name == "__init__.py" else self.module.rpartition(".")[0]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(node, package)
                found |= {name if (name := f"{base}.{alias.name}") in known else base for alias in node.names}
        return {name for name in found if name in known and name != self.module}


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        first = node.body[0] if isinstance(node, documented) and node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield first.value


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    parents = parents[: len(parents) - node.level + 1]
    return ".".join([*parents, *([node.module] if node.module else [])])


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the repository that match some patterns, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).exists()]


def sources() -> list[Source]:
    return [Source(path, (ROOT / path).read_text()) for path in tracked("src/*.py")]


def is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(is_number, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def is_record(node: ast.ClassDef) -> bool:
    marks = {ast.unparse(one).split("(")[0].split(".")[-1] for one in node.decorator_list}
    bases = {ast.unparse(one).split("[")[0].split(".")[-1] for one in node.bases}
    return bool(RECORD_WORDS & (marks | bases))


def import_cycles(imports: Imports) -> list[list[str]]:
    """Return every group of modules that import each other (Tarjan's strongly connected components), largest first."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(imports[node]):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in imports:
        if module not in order:
            visit(module)
    return sorted(found, key=lambda group: (-len(group), group))


def cycles(files: Sequence[Source]) -> list[list[str]]:
    known = {source.module for source in files}
    return import_cycles({source.module: source.imported(known) for source in files})


def pages() -> list[Path]:
    """Return what a user reads: the pages of the documentation, but those that the benches write."""
    rooms = ("docs", "README.md", "CONTRIBUTING.md", "examples", "recordings")
    return [path for path in tracked("*.md") if path.parts[0] in rooms and path.parts[:2] != ("docs", "results")]


def _lines(*patterns: str) -> int:
    return sum((ROOT / path).read_text(errors="ignore").count("\n") for path in tracked(*patterns))


def count(files: Sequence[Source]) -> dict[str, float]:
    """Return every count of the tree."""
    total: Counter[str] = Counter(files=len(files))
    bodies: list[int] = []
    for source in files:
        tokens = list(source.tokens())
        total["lines"] += source.text.count("\n")
        total["files_below_60_lines"] += source.text.count("\n") < SHORT_FILE
        total["tokens"] += len(tokens)
        total["code_lines"] += len({line for one in tokens for line in range(one.start[0], one.end[0] + 1)})
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                total["classes"] += 1
                total["records"] += is_record(node)
                total["constants"] += _numeric_defaults(node) if is_record(node) else 0
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                total["functions"] += 1
                bodies.append(_body_lines(node))
        total["constants"] += sum(
            isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and is_number(node.value)
            for node in source.tree.body
        )
    names = Counter(source.path.stem for source in files if source.path.name != "__init__.py")
    groups = cycles(files)
    return {
        **total,
        "repeated_file_names": sum(times > 1 for times in names.values()),
        "largest_import_cycle": max(map(len, groups), default=1),
        "cyclic_modules_outside_predict": sum(len(one) for one in groups if not one[0].startswith("cotune.predict")),
        "tokens_a_code_line": round(total["tokens"] / total["code_lines"], 2),
        "median_function_body": statistics.median(bodies),
        "longest_function": max(bodies),
        "tests_lines": _lines("tests/*.py"),
        "benchmarks_lines": _lines("benchmarks/*.py"),
        "pages": len(pages()),
        "pages_kb": round(sum((ROOT / path).stat().st_size for path in pages()) / 1024),
        "dialect_per_1000_words": dialect(files),
    }


def _numeric_defaults(node: ast.ClassDef) -> int:
    return sum(isinstance(one, ast.AnnAssign) and one.value is not None and is_number(one.value) for one in node.body)


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function below its signature and docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def dialect(files: Sequence[Source]) -> float:
    texts = [text for source in files for text in source.prose()]
    texts += [(ROOT / path).read_text() for path in pages()]
    words = sum(len(text.split()) for text in texts)
    return round(1000 * sum(len(DIALECT.findall(text)) for text in texts) / max(words, 1), 2)
