"""The documentation builds without a warning, knows every verb, flag, algorithm and exit code; its tutorial runs."""

from __future__ import annotations

import ast
import html
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from cotune import registry
from cotune.cli.app import app, verbs
from cotune.cluster.policy import Active, Submission
from cotune.errors import CotuneError
from cotune.space import Axis, Configs, Space
from cotune.types import Cause, Cluster, Config, Device, Job, Sample

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

pytest.importorskip("mkdocs", reason="needs MkDocs: pip install 'cotune[docs]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning would have failed the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Return (language, title, text) of every code block of a page."""
    return BLOCK.findall((ROOT / "docs" / page).read_text())


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def leaves(command: Any, words: str) -> list[tuple[str, Any]]:
    inner = command.list_commands(None) if hasattr(command, "list_commands") else ()
    below = [leaf for name in inner for leaf in leaves(command.get_command(None, name), f"{words} {name}")]
    return below or [(words, command)]


@pytest.mark.xdist_group("site")  # built once
def test_every_verb_flag_and_exit_code_is_documented(site: Path) -> None:
    page = text_of(site / "reference" / "verbs" / "index.html")
    for words, command in leaves(typer.main.get_command(app), "cotune"):
        assert words in page
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{words}: {parameter.name} says nothing of itself"
            for spelled in parameter.opts:
                assert spelled.startswith("-") is False or spelled in page, f"{words} {spelled}"
    for kind in CotuneError.__subclasses__():
        assert re.search(rf"^{kind.exit_code}\s", page, re.MULTILINE), kind


@pytest.mark.xdist_group("site")
@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_algorithm_has_a_page_with_its_idea(site: Path, kind: str) -> None:
    for name in registry.names(kind):
        page = text_of(site / "algorithms" / kind / name / "index.html")
        assert registry.summary(kind, name).replace("`", "") in page, name


@pytest.mark.parametrize("kind", ["predictor", "search", "placement", "strategy", "policy"])
def test_algorithms_name_whole_publications_where_they_come_from_one(kind: str) -> None:
    described = [registry.describe(kind, name) for name in registry.names(kind)]
    told = [line for one in described for line in re.findall(r"^Reference:.*", f"{one.text}\n{one.idea}", re.MULTILINE)]
    assert told
    assert [line for line in told if not re.fullmatch(r"Reference: \S.*\b\d{4}\b.*\.", line)] == []


def test_the_readme_lists_every_verb_in_the_order_of_the_flow() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert tuple(listed) == tuple(verbs())


def named_in(tree: ast.Module | ast.ClassDef, name: str) -> bool:
    """Whether a file or class has that function, class or `Class.method`."""
    first, _, rest = name.partition(".")
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == first]
    return any(not rest or (isinstance(node, ast.ClassDef) and named_in(node, rest)) for node in found)


def test_every_cause_of_an_early_end_is_told() -> None:
    told = (ROOT / "docs/concepts/sample.md").read_text()
    assert [cause for cause in Cause if f"(`{cause}`)" not in told] == []


def test_every_place_that_implements_an_equation_exists() -> None:
    rows = [line for line in (ROOT / "docs" / "equations.md").read_text().splitlines() if line.startswith("| ")]
    for row in rows:
        _, source, _, places, _, _ = (cell.strip() for cell in row.split("|"))
        if source.startswith(("in the", "---")):
            continue
        listed = re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", row)
        assert re.search(r"`[\w/]+\.py", places), f"{source} is implemented nowhere"
        for file, name in listed:
            path = ROOT / file if file.startswith("benchmarks/") else ROOT / "src" / "cotune" / file
            assert path.is_file(), f"{source}: no {file}"
            assert not name or named_in(ast.parse(path.read_text()), name), f"{source}: no {name} in {file}"


@pytest.mark.parametrize(("kind", "last"), [("Eq.", 12), ("Algorithm", 2), ("Table", 11), ("Figure", 6)])
def test_the_table_of_equations_leaves_out_nothing_of_the_joint_paper(kind: str, last: int) -> None:
    paper = (ROOT / "docs" / "equations.md").read_text().partition("## Predicting")[0]
    cells = [line.split("|")[1] for line in paper.splitlines() if line.startswith("| ")]
    told = {int(number) for cell in cells if kind in cell for number in numbers(cell.partition(kind)[2])}
    assert told >= set(range(1, last + 1)), sorted(set(range(1, last + 1)) - told)


def numbers(text: str) -> list[str]:
    """The numbers at the beginning of 's 2, 3 and 4 and Figure 5': those of one kind alone."""
    return re.findall(r"\d+", re.split(r"[A-Z]", text)[0])


def shown(page: Path) -> list[str]:
    """Every command line that begins with cotune in a page's code, as one line, up to the job's own command."""
    text = page.read_text().replace("\\\n", " ")
    blocked = re.findall(r"^(?:    |\$ )?(cotune [a-z].*)$", text, re.MULTILINE)
    lines = [*blocked, *re.findall(r"`(cotune [a-z][^`\n]*)`", text)]
    return [re.split(r" -- |  #| \|| && |  +(?=[a-z])", line)[0] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_shown_has_only_flags_that_exist(page: Path) -> None:
    for line in shown(page):
        command = typer.main.get_command(app)
        words = line.split()[1:]
        while words and hasattr(command, "list_commands") and words[0] in command.list_commands(None):
            command = command.get_command(None, words.pop(0))
        assert line == "cotune" or command.name != "cotune", f"no such verb: {line}"
        known = {spelled for flag in command.params for spelled in (*flag.opts, *flag.secondary_opts)} | {"--help"}
        used = [flag for flag in re.findall(r"(?<=\s)--?[a-z][\w-]*", f" {' '.join(words)}") if flag != "--"]
        assert set(used) <= known, f"{line}: {set(used) - known}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_the_tree_that_is_named_is_there(page: Path) -> None:
    named = set(re.findall(r"`((?:src/cotune|tests|benchmarks|examples)/[\w./-]+\.\w+)", page.read_text()))
    assert {name for name in named if not (ROOT / name).is_file()} == set()


@pytest.mark.timeout(600)
def test_every_code_block_of_the_tutorial_runs(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_DATA_HOME": str(tmp_path / "data")}
    environment.pop("COTUNE_STORE", None)
    ran = 0
    for kind, title, body in blocks("tutorial.md"):
        if title:
            (tmp_path / title).write_text(body)
        elif kind == "console":
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                done = subprocess.run(
                    ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, f"$ {command}{done.stdout}{done.stderr}"
                ran += 1
    assert ran >= 8


def test_the_algorithms_shown_for_adding_one_work() -> None:
    made: dict[str, Any] = {}
    for kind, title, body in blocks("extending.md"):
        if kind != "python":
            continue
        exec(compile(body, title, "exec"), made)
    configs = [Config.data_parallel(batch_size, 1) for batch_size in (16, 32)]
    samples = [Sample(config, epoch_seconds=seconds) for config, seconds in zip(configs, (1.0, 4.0), strict=True)]
    fitted = made["Constant"]().fit_seconds(Job("job"), samples)
    assert fitted.predict(Configs.of(configs)) == pytest.approx([2.0, 2.0])
    space = Space((Axis("workers", (1, 2, 4)), Axis("batch_size", (16, 32))))
    best = made["Sampling"](200).search(space, lambda points: points.astype(float), random.Random(0))
    assert best == (0, 0)
    first, second = (Submission(name, 0.0, 1, 10.0) for name in ("first", "second"))
    active = [Active(job, number, 10.0) for number, job in enumerate((first, second))]
    cluster = Cluster((Device("gpu", count=1),))
    assert list(made["Youngest"]().allocate(active, cluster)) == ["second"]


def test_no_page_is_longer_than_two_hundred_lines() -> None:
    assert [str(page) for page in PAGES if len(page.read_text(encoding="utf-8").splitlines()) > 200] == []
