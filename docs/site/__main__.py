"""Builds the site into `build/site`, or a folder that is named: `python -m docs.site [FOLDER]`.

    pages, recipes' READMEs, notebooks ─┬─ one folder of Markdown ── Zensical ── HTML ── every link looked up
    reference of config, commands, API ─┘

The exit code is 1 where a page is in no menu, where the generator warns, and where a link or an anchor leads nowhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.site.build import build
from trainer import TrainerError

try:
    site = build(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/site"))
except TrainerError as error:
    raise SystemExit(f"error: {error}") from None
print(f"{site / 'index.html'}")
