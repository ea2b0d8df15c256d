"""How the program ends: by Ctrl-C at any moment, and when nobody can read what it says."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cotune.cli.main import main
from cotune.cli.output import coloured, note


def ending(words: str) -> int:
    """Run the program in a shell, which says where its output goes; return its exit code."""
    line = f'"$PYTHON" -m cotune {words}'
    return subprocess.run(["sh", "-c", line], check=False, env={**os.environ, "PYTHON": sys.executable}).returncode


@pytest.mark.parametrize("words", [["samples"], ["samples", "--json"]])
def test_ctrl_c_while_the_verbs_are_read_is_an_exit_code(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(_: str) -> object:
        raise KeyboardInterrupt

    verbs = ModuleType("cotune.cli.app")
    verbs.__getattr__ = pressed  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, verbs.__name__, verbs)
    monkeypatch.setattr(sys, "argv", ["cotune", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out)["error"]["exit_code"] == 130 if "--json" in words else said.out == ""


def test_ctrl_c_within_an_exec_is_an_exit_code_too() -> None:
    code = "import sys, types; sys.modules['cotune.cli.app'] = types.SimpleNamespace(app=lambda: exec('{}'))\n"
    code += "from cotune.cli.main import main; main()"
    pressed = code.format("raise KeyboardInterrupt")
    assert subprocess.run([sys.executable, "-c", pressed], check=False, capture_output=True).returncode == 130


def test_output_that_finds_no_room_is_one_line_and_an_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    for words in ("algorithms policy", "algorithms --json"):
        assert ending(f"{words} > /dev/full") == 1
        assert capfd.readouterr().err == "cotune: cannot write the output: No space left on device\n"


def test_an_error_that_nobody_reads_keeps_its_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    assert ending("algorithms --json nonsense > /dev/full") == 2
    assert "Traceback" not in capfd.readouterr().err


def test_closed_outputs_are_no_error() -> None:
    assert ending("algorithms policy >&- 2>&-") == 0


def test_any_letter_can_be_said_in_any_encoding(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "cotune", "export", "slurm", "-w", "1", "-b", "8", "--epochs", "2", "--"]
    command = ["python", "größer.py", "{batch_size}"]
    ended = subprocess.run([*program, *command], check=True, cwd=tmp_path, env=env, capture_output=True)
    assert rb"gr\xf6\xdfer.py" in ended.stdout


def test_a_remark_that_finds_no_room_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    note("epoch 3 of at most 30")


def test_nothing_is_coloured_where_no_color_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured()
