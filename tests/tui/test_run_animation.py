"""The animated picture of a run: well-formed, every row drawn once while it stays, and still without animations."""

from __future__ import annotations

import importlib.util
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest
import synthetic_run

SCRIPT = Path(__file__).resolve().parent.parent.parent / "docs" / "run_animation.py"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, imported from its file."""
    spec = importlib.util.spec_from_file_location("run_animation", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # its dataclasses look it up
    spec.loader.exec_module(module)
    return module


def test_a_row_that_stays_is_drawn_once_and_the_last_frame_stands_without_animations(module: ModuleType) -> None:
    frames = [module.Shown(("<a/>", content), 1.0) for content in ("<b/>", "<b/>", "<c/>")]
    picture = module.animation(frames, columns=10)
    root = ElementTree.fromstring(picture)
    groups = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if "transform" in group.attrib][1:]
    assert [(group[0].tag.rpartition("}")[2], group.get("class")) for group in groups] == [
        ("a", None), ("b", "v k0"), ("c", "v k1 last"),
    ]  # fmt: skip
    assert "@keyframes k0{0.00%{visibility:visible}66.67%{visibility:hidden}}" in picture
    assert re.search(r"\.last\{visibility:visible\}@media \(prefers-reduced-motion:reduce\)", picture)


@pytest.mark.full
async def test_a_run_becomes_a_small_well_formed_picture(module: ModuleType, tmp_path: Path) -> None:
    paths = synthetic_run.write_run(tmp_path / "digits-7", has_shown=True)
    frames = await module.screens(paths, 80, 24, 9, ("3",))
    picture = module.animation(frames, 80)
    ElementTree.fromstring(picture)
    assert len(frames) == 10 and len(picture) < 300_000
    assert "RUNNING" in "".join(frames[3].rows) and "DONE" in "".join(frames[-1].rows)
    assert "data:image/png;base64," in "".join(frames[-1].rows), "pictures of samples"
