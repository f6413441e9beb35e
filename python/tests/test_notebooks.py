"""The notebooks run from top to bottom in a kernel of their own, and the assertions of their last cells hold.

They are kept without outputs. A figure in Git would differ with each version of matplotlib, and a stale one would go
unnoticed. The text describes the figures, and the last cell of each notebook checks that text against the run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"

EACH = pytest.mark.parametrize("file", sorted(FOLDER.glob("*.ipynb")), ids=lambda file: file.stem)


def test_there_are_notebooks() -> None:
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == {"recording", "what-if"}


@EACH
def test_a_notebook_is_kept_without_outputs(file: Path) -> None:
    for cell in nbformat.read(file, as_version=4).cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, cell.source


@EACH
def test_a_cell_is_short(file: Path) -> None:
    for cell in nbformat.read(file, as_version=4).cells:
        lines = cell.source.splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) <= 128, cell.source


@EACH
def test_a_notebook_runs_and_its_words_are_true(file: Path) -> None:
    notebook = nbformat.read(file, as_version=4)
    assert "assert" in notebook.cells[-1].source, "the last cell checks the text against the run"
    where = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=where).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert any("image/png" in out.get("data", {}) for out in outputs), "there is a figure"
    errors = [out.text for out in outputs if out.output_type == "stream" and out.name == "stderr"]
    assert not [text for text in errors if "Warning" in text]
