"""One folder of Markdown from all sources, and the site that Zensical makes of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from docs.site import api, commands, notebooks, reference
from docs.site.links import broken_links
from trainer import TrainerError

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = Path(__file__).with_name("mkdocs.yml")
ASSETS = [Path(__file__).with_name(name) for name in ("iframe-worker.js", "site.css", "site.js")]
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What pages would load from a network for searching without a server; `iframe-worker.js` is a copy of it."""
GENERATED = (reference.pages, commands.pages, api.pages)
RECIPES = "trainer/recipes/"
ALSO = ("CHANGELOG.md", "CONTRIBUTING.md")
"""Pages outside of `docs/` and the recipes."""
_FENCE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def build(target: Path) -> Path:
    """Build the site into `target`, which is replaced.

    Raises:
        TrainerError: Zensical is missing or reports a problem; a page is in no menu or a menu names a page that does
            not exist; a link, an anchor or a file that a page loads does not exist.
    """
    target = target.resolve()
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder) / "pages")
        for asset in ASSETS:
            shutil.copy(asset, Path(folder) / "pages")
        settings = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
        settings["nav"] = _menu(settings["nav"], Path(folder) / "pages")
        (Path(folder) / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        _generate(Path(folder))
        for path in (Path(folder) / "site").rglob("*.html"):
            local = os.path.relpath(Path(folder) / "site" / ASSETS[0].name, path.parent)
            path.write_text(path.read_text(encoding="utf-8").replace(SHIM, local), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(folder) / "site", target)
    if broken := broken_links(target):
        raise TrainerError("links lead nowhere", where=str(target), found="\n" + "\n".join(broken))
    return target


def stage(pages: Path) -> None:
    """Write every page, and each file that a page links to, below `pages`."""
    texts = {f"docs/{path}": text for make in GENERATED for path, text in make().items()}
    for path in sorted((ROOT / "docs").glob("notebooks/*.ipynb")):
        name = path.relative_to(ROOT).as_posix()
        texts[name], pictures = notebooks.page(path)
        for picture, content in pictures.items():
            _write(pages / "notebooks" / picture, content)
    sources = [*ROOT.glob("docs/*.md"), *ROOT.glob(f"{RECIPES}*/README.md"), *ROOT.glob(f"{RECIPES}*/data/README.md")]
    for path in [*sources, *(ROOT / name for name in ALSO)]:
        texts[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    for name, text in texts.items():
        _write(pages / place(name), _with_links(name, text, texts, pages).encode())


def place(name: str) -> str:
    """The path below the site of a file of the repository."""
    if name.startswith("docs/"):
        return name.removeprefix("docs/").replace(".ipynb", ".md")
    if name.startswith(RECIPES):
        return name.removeprefix("trainer/").replace("README.md", "index.md")
    return name.lower() if name.endswith(".md") else f"files/{name}"


def _with_links(name: str, text: str, texts: dict[str, str], pages: Path) -> str:
    """A page with its links as they are on the site; files that are no pages are copied."""
    here = PurePosixPath(place(name)).parent

    def moved(match: re.Match[str]) -> str:
        link = os.path.normpath(f"{PurePosixPath(name).parent}/{match[1]}")
        if link not in texts and not (pages / place(link)).is_file():
            if not (ROOT / link).is_file():
                raise TrainerError("the page links to a file that does not exist", where=name, found=match[1])
            _write(pages / place(link), (ROOT / link).read_bytes())
        return f"]({os.path.relpath(place(link), here)}{match[2] or ''})"

    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(moved, part) for part in parts[::2]]
    return "".join(parts)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _menu(nav: list[Any], pages: Path) -> list[Any]:
    """The menu, with a folder (`api/`) replaced by its pages; its index comes first."""

    def expanded(entries: list[Any]) -> Iterator[Any]:
        for entry in entries:
            if isinstance(entry, dict):
                ((title, value),) = entry.items()
                yield {title: [*expanded(value)] if isinstance(value, list) else value}
            elif entry.endswith("/"):
                found = sorted((pages / entry).glob("*.md"), key=lambda path: (path.name != "index.md", path.name))
                yield from (f"{entry}{path.name}" for path in found)
            else:
                yield entry

    menu = [*expanded(nav)]
    named = [*_leaves(menu)]
    there = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}
    hidden = {name for name in there if name.startswith("recipes/") and name.endswith("data/index.md")}
    if missing := sorted({*named} ^ (there - hidden)):
        raise TrainerError("the menu and the pages differ", where=str(SETTINGS), found=", ".join(missing),
                           expected="every page once under `nav`")  # fmt: skip
    return menu


def _leaves(menu: list[Any]) -> Iterator[str]:
    for entry in menu:
        if isinstance(entry, dict):
            ((_, value),) = entry.items()
            yield from _leaves(value) if isinstance(value, list) else [value]
        else:
            yield entry


def _generate(folder: Path) -> None:
    """Run Zensical. It exits with 0 after some warnings, so its output is searched for them."""
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", "mkdocs.yml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    output = done.stdout + done.stderr
    if "No module named zensical" in output:
        raise TrainerError("Zensical is not installed", hint="pip install -e '.[docs]'")
    if done.returncode != 0 or "warning" in output.lower():
        raise TrainerError("the pages have problems", where="zensical build --strict", found="\n" + output)
