"""New projects: a recipe's files or the template's in a folder of their own, with a config for the user's data."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from trainer import TrainerError
from trainer.cli.gallery import recipe_folder
from trainer.configs import json_schema, load
from trainer.rundir import write_error

TEMPLATE = Path(__file__).parent / "template"
"""What a project without a recipe starts from: a classifier of images."""
EMBEDDED = "digits"
"""The recipe whose data such a project has, unless it is for a folder of the user's."""
SCHEMA = "config.schema.json"
EDITOR_LINE = f"# yaml-language-server: $schema={SCHEMA}\n"

RECIPE_FOR = {"coco": "detection", "yolo": "detection", "voc": "detection", "segmentation": "segmentation",
              "pairs": "pix2pix"}  # fmt: skip
"""By the reader of a layout, the recipe for data that is no images with classes."""
CLASSIFIED = ("image_folder", "table", "idx")
"""Readers of images with classes."""
MISSING_SPLITS = {"valid": 0.1, "test": 0.1}
"""Shares of the training split, for data that is not divided."""

_ROOT = re.compile(r"^  root: \S+", re.MULTILINE)
_READER = re.compile(r"^  reader:.*\n(?:    .*\n)*", re.MULTILINE)
"""Lines of a recipe's config, which has sections by two spaces."""
_ELSEWHERE = re.compile(r"\.\./(\w+/[\w./-]*\w)")
"""How a recipe's config names what another recipe carries: `root: ../clothes/data`."""
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "__init__.py", "*.pyc")


def write_project(folder: Path, *, recipe: str | None = None, data: Path | None = None) -> str | None:
    """Write a project that trains at once; what the data was detected to be, in one line, or None for embedded data.

    Args:
        folder: new or empty.
        recipe: the recipe that is copied; None: the template.
        data: the user's folder of data, which the config then names; None: the recipe's data is copied along.

    Raises:
        TrainerError: there is something in the folder, or it can't be written; no such recipe; the data has no layout
            that is known, or one that the template's task can't read.
    """
    source = TEMPLATE if recipe is None else recipe_folder(recipe)
    text = (source / "config.yaml").read_text(encoding="utf-8")
    line = None
    if data is not None:
        line, reader = _reader_of(recipe, data)
        text = _with_data(text, json.dumps(str(data.absolute())), reader)
    elif recipe is None:
        text = _with_data(text, "data", _settings(load(EMBEDDED).config.data.reader))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise TrainerError("the folder is not empty", where=str(folder), expected="a new or empty folder")
        ignored = _LEFT_OUT if data is None else lambda at, names: {*_LEFT_OUT(at, names), *_data_in(source, at)}
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=ignored)
        if recipe is None and data is None:
            shutil.copytree(recipe_folder(EMBEDDED) / "data", folder / "data")
        for path in set(_ELSEWHERE.findall(text)):
            shutil.copytree(source.parent / path, folder / path, dirs_exist_ok=True)
        config = folder / "config.yaml"
        config.write_text(EDITOR_LINE + _ELSEWHERE.sub(r"\1", text), encoding="utf-8")
        options = load(str(config)).options
        schema = json_schema(None if options is None else type(options))
        (folder / SCHEMA).write_text(json.dumps(schema) + "\n", encoding="utf-8")
    except shutil.Error as error:
        raise TrainerError(f"can't copy: {error}", where=str(folder)) from error
    except OSError as error:
        raise write_error(error.filename or folder, error) from error
    return line


def _data_in(source: Path, at: str) -> list[str]:
    """The recipe's own data, which a project for other data does without."""
    return ["data"] if os.path.samefile(source, at) else []


def _reader_of(recipe: str | None, data: Path) -> tuple[str, dict[str, Any]]:
    """The data's layout in one line, and the settings of its reader."""
    from trainer.datasets.layouts import detect  # takes time to import

    layout = detect(data.absolute())
    if recipe is None and layout.reader not in CLASSIFIED:
        fitting = RECIPE_FOR.get(layout.reader)
        raise TrainerError(
            "the data has no class for each image",
            where=str(data),
            found=layout.line(),
            expected="a folder of images for each class, or images and a table of their classes",
            hint=f"For this data: --recipe {fitting}." if fitting else "`trainer list` shows the recipes.",
        )
    settings = {"name": "auto"}
    if recipe is not None:
        settings = _settings(load(recipe, {"data.root": str(data.absolute())}).config.data.reader)
    if "valid" not in layout.splits:
        shares = {split: share for split, share in MISSING_SPLITS.items() if split not in layout.splits}
        settings = {**settings, "fractions": shares}  # type: ignore[dict-item]
    return f"{data}: {layout.line()}", settings


def _settings(reader: Any) -> dict[str, Any]:
    return dict(reader.model_dump(mode="json", by_alias=True, exclude_unset=True))


def _with_data(text: str, root: str, reader: dict[str, Any]) -> str:
    """The text of a config with another `data.root` and `data.reader`."""
    written = yaml.safe_dump(reader, default_flow_style=True, sort_keys=False, width=10_000).strip()
    return _READER.sub(lambda _: f"  reader: {written}\n", _ROOT.sub(lambda _: f"  root: {root}", text, 1), 1)
