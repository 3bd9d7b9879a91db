"""The notebook of the documentation runs, from its first cell to its last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOK = Path(__file__).resolve().parent.parent.parent / "docs" / "notebook.ipynb"


def test_the_notebook_runs() -> None:
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=100, resources={"metadata": {"path": str(NOTEBOOK.parent)}}
    )
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("v2" in output.get("data", {}).get("text/html", "") for output in shown)
    said = "".join(output.get("text", "") for output in shown)
    assert "v3: v3 is" in said and "faster than v2" in said
    # A cell shows its value once: rich would display what it prints there, too.
    assert {output["output_type"] for output in shown} == {"execute_result", "stream"}


def test_an_error_in_a_notebook_says_what_to_do() -> None:
    cell = nbformat.v4.new_code_cell("import workbench as wb\nwb.open().show('sgemm/v99')")
    notebook: Any = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(
        notebook,
        timeout=100,
        allow_errors=True,
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    ).execute()
    (shown,) = notebook.cells[0].outputs
    assert "has no version `v99`" in shown["evalue"]
    assert "hint: " in "".join(shown["traceback"])
