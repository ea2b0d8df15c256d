from __future__ import annotations

from pathlib import Path

from examples.notebooks import kept, run

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def test_the_notebook_runs_and_shows_what_it_is_kept_with() -> None:
    shown, before = run(NOTEBOOK), kept(NOTEBOOK)
    assert [[sorted(one.get("data", one)) for one in cell] for cell in shown] == [
        [sorted(one.get("data", one)) for one in cell] for cell in before
    ]
    plan = next(one["data"] for cell in shown for one in cell if "text/html" in one.get("data", {}))
    assert "P(met)" in "".join(plan["text/plain"])
    assert "<table>" in plan["text/html"][0]
    assert any("'met'" in "".join(one.get("data", {}).get("text/plain", [])) for cell in shown for one in cell)
