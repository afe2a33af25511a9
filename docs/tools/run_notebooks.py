"""Run the notebooks of the documentation and keep their answers: ``python docs/tools/run_notebooks.py``."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"


def run(path: Path) -> None:
    """Run one from top to bottom, in a kernel of its own, and write it back."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False).execute()
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for place in sorted(FOLDER.glob("*.ipynb")):
        run(place)
        print(place.name)
