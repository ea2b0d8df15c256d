"""Running a notebook without a kernel: its code cells in order, in one namespace.

A cell's last line is shown, if it is an expression: as text, and as HTML where the value has some.
`python tests/examples/notebooks.py FILE` keeps the outputs in the file.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any


def run(file: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs of every code cell, as the file format has them."""
    cells = json.loads(file.read_text())["cells"]
    space: dict[str, Any] = {}
    with chdir(file.parent):
        return [_outputs("".join(cell["source"]), space) for cell in cells if cell["cell_type"] == "code"]


def _outputs(source: str, space: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, shown = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), space)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if shown is not None:
        data = {"text/plain": repr(shown).splitlines(keepends=True)}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = [shown._repr_html_()]
        outputs.append({"data": data, "metadata": {}, "output_type": "execute_result", "execution_count": None})
    return outputs


def kept(file: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs that the file holds."""
    return [cell["outputs"] for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]


def write(file: Path) -> None:
    """Run a notebook and keep its outputs in it."""
    document, outputs = json.loads(file.read_text()), run(file)
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    for number, (cell, made) in enumerate(zip(code, outputs, strict=True), 1):
        cell["execution_count"] = number
        cell["outputs"] = [one | ({"execution_count": number} if "execution_count" in one else {}) for one in made]
    file.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve())
