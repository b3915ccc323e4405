"""axe-core on every page of the site in Chromium, and the width of every page on a phone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import CHROMIUM, Page, browser

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
DESKTOP = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
ONE_OF_EACH = ("index.html", "quick-start.html", "gallery.html", "reference/data.html", "commands.html",
               "api/trainer.learner.html", "notebooks/first-training.html", "recipes/digits/index.html")  # fmt: skip
"""Pages of every kind, which are checked on a desktop, too."""
SHADOW = "[...document.querySelectorAll('div')].map(one => one.shadowRoot).find(root => root?.querySelector('dialog'))"
DIALOG = f"{SHADOW}?.activeElement?.getAttribute('role') == 'combobox'"
FOUND = f"[...{SHADOW}.querySelectorAll('a')].map(one => one.href).join(' ')"
AXE = """
axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"]}).then(
  found => found.violations.map(one => one.id + ": " + one.nodes.map(node => node.html.slice(0, 160)).join(" | ")))
"""
TOO_WIDE = """
(root => {
  const scrolls = one => one && one !== document.body && one !== root
    && (getComputedStyle(one).overflowX !== "visible" || scrolls(one.parentElement));
  return [...document.querySelectorAll("body *")].filter(one => root.scrollWidth > root.clientWidth
    && one.getBoundingClientRect().right > root.clientWidth + 1 && !scrolls(one.parentElement))
    .slice(0, 3).map(one => one.outerHTML.slice(0, 160));
})(document.documentElement)
"""
"""Elements beyond the right edge of the window, but for those inside of an element that scrolls by itself."""


def axe_file() -> Path | None:
    """`axe.min.js` of the npm package axe-core: below the repository, or installed globally."""
    roots = [Path(__file__).resolve().parents[2] / "node_modules"]
    if npm := shutil.which("npm"):
        listed = subprocess.run([npm, "root", "--global"], capture_output=True, text=True, env={**os.environ})
        roots.append(Path(listed.stdout.strip()))
    return next((file for root in roots if (file := root / "axe-core" / "axe.min.js").is_file()), None)


AXE_FILE = axe_file() if CHROMIUM else None
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
    pytest.mark.skipif(AXE_FILE is None, reason="axe-core is not installed: npm install --global axe-core"),
]


async def show(page: Page, path: Path, screen: dict[str, Any], scheme: str = "light") -> None:
    """Open a page of the site on a screen."""
    await page.ask("Emulation.setDeviceMetricsOverride", **screen)
    await page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    await page.open(path.as_uri())


async def problems(page: Page) -> list[str]:
    """What axe-core finds on the page that is shown."""
    assert AXE_FILE is not None
    await page.run(AXE_FILE.read_text(encoding="utf-8"))
    found: list[str] = await page.run(AXE)
    return found


async def test_every_page_is_accessible_and_fits_a_phone(site: Path, tmp_path: Path) -> None:
    pages = [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]  # which needs a server
    screens = [(path, PHONE, "dark") for path in pages] + [(site / name, DESKTOP, "light") for name in ONE_OF_EACH]
    found: dict[str, list[str]] = {}
    async with browser(tmp_path / "profile") as page:
        for path, screen, scheme in screens:
            await show(page, path, screen, scheme)
            where = f"{path.relative_to(site)} at {screen['width']} pixels, {scheme}"
            found[where] = await problems(page) + [f"too wide: {html}" for html in await page.run(TOO_WIDE)]
    assert len(found) > 60
    assert {where: lines for where, lines in found.items() if lines} == {}


async def test_the_check_finds_a_picture_without_a_text_and_a_page_that_is_too_wide(tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        '<html lang="en"><title>t</title><meta name="viewport" content="width=device-width">'
        '<main><h1>t</h1><img src="a.png" style="width: 900px"></main>'
    )
    async with browser(tmp_path / "profile") as page:
        await show(page, path, PHONE)
        assert [line.partition(":")[0] for line in await problems(page)] == ["image-alt"]
        assert any("900px" in html for html in await page.run(TOO_WIDE))


async def test_search_finds_a_page_without_a_server(site: Path, tmp_path: Path) -> None:
    async with browser(tmp_path / "profile") as page:
        await show(page, site / "index.html", DESKTOP)
        await page.run("document.querySelector('.md-search__button').click()")
        while not await page.run(DIALOG):
            pass
        await page.ask("Input.insertText", text="patience")
        while "early_stopping.html" not in (links := await page.run(FOUND)):
            pass
    assert "file://" in links
