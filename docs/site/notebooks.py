"""Notebooks as pages: their Markdown, their code, and the results that are stored with it.

`python -m docs.site.notebooks` runs all notebooks again and stores their results.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "notebooks"
SECONDS = 600
"""Until a cell is given up."""
ESCAPES = re.compile(r"[^\n]*\r(?=[^\n])|\x1b\[[0-9;]*[A-Za-z]|\r")
"""Codes of colors and of lines that are drawn again."""


def page(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by the names that the page uses."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    pictures: dict[str, bytes] = {}
    parts = []
    for cell in cells:
        source = "".join(cell["source"]).strip()
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            parts.append(_shown(output, notebook.stem, pictures))
    return "\n\n".join(parts) + "\n", pictures


def _shown(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> str:
    if output["output_type"] == "stream":
        return _block("".join(output["text"]))
    data = output["data"]
    if "image/png" in data:
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = base64.b64decode("".join(data["image/png"]))
        return f"![{html.escape(''.join(data['text/plain']).strip())}]({name})"
    if "text/html" in data:
        return f'<div class="result">\n{"".join(data["text/html"])}\n</div>'
    return _block("".join(data["text/plain"]))


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def run(notebook: Path, folder: Path) -> Any:
    """Run a notebook from top to bottom in `folder`; the notebook with its results.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raises.
    """
    import nbformat
    from nbclient import NotebookClient

    document = nbformat.read(notebook, as_version=4)
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(document, timeout=SECONDS, coalesce_streams=True, resources=place).execute()
    return document


def store(paths: Iterable[Path]) -> None:
    """Run notebooks and write their results into them."""
    import nbformat

    for path in paths:
        with TemporaryDirectory() as folder:
            document = run(path, Path(folder))
        for cell in document.cells:
            cell.metadata.pop("execution", None)  # times of day, which change with each run
            for output in cell.get("outputs", ()):
                if "image/png" in output.get("data", {}):
                    output.data.pop("text/html", None)  # the same picture again
                if "text" in output:
                    output.text = ESCAPES.sub("", output.text)
        text = nbformat.writes(document).replace(f"{folder}/", "").replace(f"{ROOT}/", "")
        path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    store(sorted(FOLDER.glob("*.ipynb")))
