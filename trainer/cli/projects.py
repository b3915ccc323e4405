"""Creates projects: the files of a recipe or of the template, with a config for the user's data."""

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
"""The template of projects without a recipe: an image classifier."""
EMBEDDED = "digits"
"""The recipe whose data a project uses if no other data is given."""
SCHEMA = "config.schema.json"
EDITOR_LINE = f"# yaml-language-server: $schema={SCHEMA}\n"

RECIPE_FOR = {"coco": "detection", "yolo": "detection", "voc": "detection", "segmentation": "segmentation",
              "pairs": "pix2pix", "text": "shakespeare", "text_classes": "names"}  # fmt: skip
"""The recipe for data other than image classification, by the reader of its layout."""
CLASSIFIED = ("image_folder", "table", "idx")
"""Readers of image classification data."""
MISSING_SPLITS = {"valid": 0.1, "test": 0.1}
"""Fractions of the training split that replace missing splits."""

_ROOT = re.compile(r"^  root: \S+", re.MULTILINE)
_READER = re.compile(r"^  reader:.*\n(?:    .*\n)*", re.MULTILINE)
"""Lines of a recipe's config, whose sections are indented by two spaces."""
_ELSEWHERE = re.compile(r"\.\./(\w+/[\w./-]*\w)")
"""How a recipe's config refers to another recipe's data: `root: ../clothes/data`."""
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "__init__.py", "*.pyc")


def write_project(folder: Path, *, recipe: str | None = None, data: Path | None = None) -> str | None:
    """Writes a project that can be trained right away. Returns one line about the detected data, or None for bundled
    data.

    Args:
        folder: a new or empty folder.
        recipe: the recipe to copy; None: the template.
        data: the user's data folder, for the config; None: the recipe's data is copied as well.

    Raises:
        TrainerError: the folder is not empty or can't be written; no such recipe; the layout of the data is unknown, or
            the template's task can't read it.
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
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)  # created by importing the options above
    except shutil.Error as error:
        raise TrainerError(f"can't copy: {error}", where=str(folder)) from error
    except OSError as error:
        raise write_error(error.filename or folder, error) from error
    return line


def _data_in(source: Path, at: str) -> list[str]:
    """The recipe's own data, which is not copied for other data."""
    return ["data"] if os.path.samefile(source, at) else []


def _reader_of(recipe: str | None, data: Path) -> tuple[str, dict[str, Any]]:
    """The data's layout in one line, and the settings of its reader."""
    from trainer.datasets.layouts import detect  # the import takes time

    layout = detect(data.absolute())
    if recipe is None and layout.reader not in CLASSIFIED:
        fitting = RECIPE_FOR.get(layout.reader)
        raise TrainerError(
            "the template needs one class per image, which this data doesn't have",
            where=str(data),
            found=layout.line(),
            expected="a folder of images per class, or images and a table of their classes",
            hint=f"A recipe for this data: --recipe {fitting}." if fitting else "`trainer list` shows the recipes.",
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
