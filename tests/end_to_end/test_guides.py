"""The pages docs/own-*.md: their commands run from top to bottom on a drawn data set in the layout that they show."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.datasets.layout_folders import (
    BOX,
    Boxes,
    Drawn,
    class_flat,
    coco_standard,
    mask_folders,
    noise,
    pairs_folders,
    save,
    yolo_ultralytics,
)
from tests.recipes.test_own_data import SMALL
from trainer.cli import main

SHORT = ("train.epochs=1", "data.batch_size=2", "data.valid_batch_size=2", "data.workers=0", "data.cache_gb=0",
         "autotune.mode=off")  # fmt: skip
"""What every `trainer run` of a page gets besides its own words, so that it ends in seconds."""
SMALL_NUCLEI = ("options.widths=[4, 8]", "options.foreground=0.9",
                "data.transforms.train=[{name: random_scaled_crop, size: 32, scale: [1, 1]}]")  # fmt: skip
"""An untrained network finds hundreds of objects at the usual threshold, which take minutes to evaluate."""


class Content(Drawn):
    """Items under the names of the pages."""

    labels = ("hat", "dress")
    class_names = ("cell",)
    colors = {"ground": (0, 0, 0), "building": (255, 0, 0)}

    def __init__(self, suffix: str = ".jpg", size: tuple[int, int] | None = None) -> None:
        self.suffix = suffix
        self.size = size

    def photo(self, kind: str, stem: str) -> np.ndarray:
        return super().photo(kind, stem) if self.size is None else noise(int(stem[-1]) + len(stem), self.size)

    def boxes(self, stem: str) -> Boxes:
        return (("cell", BOX),)


def photos(root: Path) -> None:
    class_flat(root / "photos", Content())
    (root / "photos/hat/Thumbs.db").unlink()


def cells(root: Path) -> None:
    yolo_ultralytics(root / "cells", Content())


def land(root: Path) -> None:
    mask_folders(root / "land", Content())
    for name in ("images", "masks"):
        (root / "land" / name.capitalize()).rename(root / "land" / name)


def nuclei(root: Path) -> None:
    coco_standard(root / "nuclei", Content(".png", (64, 64)))
    for path in (root / "nuclei/annotations").iterdir():
        content = json.loads(path.read_text())
        for one in content["annotations"]:
            x, y, wide, high = one["bbox"]
            one["segmentation"] = [[x, y, x + wide, y, x + wide, y + high, x, y + high]]
        path.write_text(json.dumps(content))


def maps(root: Path) -> None:
    pairs_folders(root / "maps", Content())


PAGES: dict[str, tuple[Callable[[Path], None], Sequence[str]]] = {
    "classification": (photos, SMALL["clothes"]),
    "detection": (cells, SMALL["detection"]),
    "segmentation": (land, SMALL["segmentation"]),
    "instances": (nuclei, SMALL_NUCLEI),
    "image-to-image": (maps, SMALL["pix2pix"]),
}
"""By page: what draws its data, and options that make its network small."""


def test_every_page_is_tested(repository: Path) -> None:
    pages = {path.name for path in (repository / "docs").glob("own-*.md")} - {"own-data.md"}  # which chooses among them
    assert pages == {f"own-{name}.md" for name in PAGES}


@pytest.mark.full
@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_run(
    name: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page = (repository / f"docs/own-{name}.md").read_text(encoding="utf-8")
    draw, small = PAGES[name]
    draw(tmp_path)
    (photo,) = re.findall(r"^new\.\w+$", page, flags=re.MULTILINE)
    save(tmp_path / photo, noise(7, (256, 256)))
    patterns = re.findall(r"## The folder\n.*?```text\n(.*?)```", page, flags=re.DOTALL)[0].split()
    shown = [set(tmp_path.glob(pattern)) for pattern in patterns]
    assert all(shown) and set().union(*shown) == {path for path in tmp_path.rglob("*") if path.is_file()}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(repository))
    settings = [word for row in re.findall(r"^\| `(.*?)` \|", page, flags=re.MULTILINE) for word in row.split()]
    blocks = re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(settings) >= 4 and [words[1] for words in commands] == [
        "data", "check", "run", "run", "evaluate", "predict", "export", "predict"
    ]  # fmt: skip
    checks = [[*words, *settings] for words in commands if words[1] == "check"]
    for program, *words in [*checks, *commands]:
        assert program == "trainer"
        code = main([*words, *SHORT, *small] if words[0] == "run" else words)
        assert code == 0, f"{' '.join(words)}\n{capfd.readouterr().err}"
    for folder in ("results", "results-of-export"):
        assert [path.stem for path in (tmp_path / folder).iterdir()] == ["new"]
