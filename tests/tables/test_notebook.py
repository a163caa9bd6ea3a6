"""The notebook of the docs runs from top to bottom, and what it shows is drawn."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "meter.ipynb"


def shown(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; give the value of its last line, which a notebook would show."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_runs() -> None:
    pytest.importorskip("pandas", reason="tables need the extra [tables]")
    pytest.importorskip("matplotlib", reason="tables need the extra [tables]").use("Agg")
    from matplotlib import pyplot

    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    found = [shown("".join(cell["source"]), names) for cell in code]
    pyplot.close("all")
    pictures = [one for one in found if "<svg" in getattr(one, "_repr_html_", str)()]
    assert len(code) == len(found) > 6
    assert len(pictures) == 2  # the release, and the table of its days
    assert names["frame"]["rows"].sum() == 14 * 1440


def test_the_notebook_is_stored_without_results() -> None:
    # Results would be those of one machine, and make every change of it long.
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert notebook["nbformat"] == 4
