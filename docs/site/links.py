"""Looks up every link, anchor and picture of a built site, without a network."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
"""Attributes from which a browser loads something by itself."""


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[tuple[str, str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        is_hint = tag == "link" and values.get("rel") in ("canonical", "edit", "generator")
        self.links += [(tag, name, values[name]) for name in ("href", "src") if name in values and not is_hint]


def broken_links(site: Path) -> list[str]:
    """A line for each link that leads nowhere, and for each thing that a page would load from a network."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for tag, name, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if (tag, name) in LOADED and parts.scheme != "data":
                    found.append(f"{where}: loads {link}")
                continue
            base = site if parts.path.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{where}: no file for {link}")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{where}: no anchor for {link}")
    return sorted(set(found))
