"""The scripts of the pages on frameworks run as they are pasted, without cotune around them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interop import environments

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = ("docs/adapters.md", "docs/how-to/frameworks.md")
SCRIPTS = [block for page in PAGES for block in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]
FRAMEWORKS = ("lightning", "transformers")


def framework(script: str) -> str:
    return next(name for name in FRAMEWORKS if re.search(rf"^(?:import|from) {name}\b", script, re.MULTILINE))


def python(name: str) -> str:
    """Return an interpreter that has a framework, or skip the test."""
    if importlib.util.find_spec(name) is not None:
        return sys.executable
    there = environments.python("logs")
    if not there.is_file():
        pytest.skip(f"needs {name}: pip install 'cotune[{name.replace('transformers', 'huggingface')}]'")
    return str(there)


def test_each_framework_has_a_script_to_paste() -> None:
    assert sorted(map(framework, SCRIPTS)) == sorted(FRAMEWORKS)


@pytest.mark.parametrize("script", SCRIPTS, ids=map(framework, SCRIPTS))
def test_a_pasted_script_runs_without_cotune_around_it(script: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script)
    env = {name: value for name, value in os.environ.items() if not name.startswith("COTUNE_")}
    env = {**env, "PYTHONPATH": str(ROOT / "src"), "TOKENIZERS_PARALLELISM": "false"}
    command = [python(framework(script)), "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
