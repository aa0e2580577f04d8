"""The notebooks of the docs run on a real kernel, and their stored outputs are what they give."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.tools.test_display import ATTRIBUTES, TAGS, Parsed

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"

VARYING = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "ID"),
    (re.compile(r"\b20\d\d(\\?-)\d\d(\\?-)\d\d\b"), "DAY"),
    (re.compile(r'<td class="n">[\d,]+</td>(?=<td dir="auto">[^<]*</td></tr>)'), "MS"),
    (re.compile(r"\| [\d,]+ (?=\| [^|]* \|$)", re.MULTILINE), "| MS "),
)
"""Parts of an output that differ from run to run: random ids, and the milliseconds in a trace."""


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def execute(path: Path, folder: Path) -> Any:
    """Runs a notebook in `folder`, and returns it with its new outputs."""
    notebook = read(path)
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    return notebook


def outputs(notebook: Any) -> list[list[dict[str, str]]]:
    """Returns the outputs of each cell by their type, without what differs from run to run."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[_shown(output) for output in cell.outputs] for cell in cells]


def _shown(output: Any) -> dict[str, str]:
    data = dict(output.get("data", {}))
    if "text/html" in data:
        del data["text/plain"]  # the repr() of a list has times in it
    data = data or {output.get("name", output.output_type): output.get("text", "")}
    for kind, text in data.items():
        for pattern, instead in VARYING:
            text = pattern.sub(instead, text)
        data[kind] = text
    return data


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_stored_outputs_are_its_own(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    stored = read(path)
    nbformat.validate(stored)
    made = execute(path, tmp_path)
    assert outputs(made) == outputs(stored), f"run `python -m tests.docs.test_notebooks` to store the outputs of {path}"
    for cell in outputs(made):
        for output in cell:
            shown = Parsed(output.get("text/html", ""))
            assert shown.tags <= TAGS
            assert shown.attributes <= ATTRIBUTES


def store_outputs() -> None:
    """Runs every notebook and stores its outputs in its file."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = execute(path, Path(os.environ.get("TMPDIR", "/tmp")))
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        notebook.metadata.pop("widgets", None)
        notebook.metadata["language_info"] = {"name": "python"}
        path.write_text(nbformat.writes(notebook) + "\n", "utf-8")  # type: ignore[no-untyped-call]
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    asyncio.set_event_loop(asyncio.new_event_loop())
    store_outputs()
