"""The manifest of an exported model as JSON, and its validation: nothing in a file is trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any, get_args

from trainer import TrainerError
from trainer.configs.custom_class import names_own_class
from trainer.learner.exported.card import Card
from trainer.learner.exported.types import misfit
from trainer.learner.inference import Step, steps_from_json, steps_to_json
from trainer.learner.inference.finishing import Finishing
from trainer.learner.inference.pipeline import Kind
from trainer.learner.inference.preparing import Decode, Preparing, TransformPicture
from trainer.learner.inference.steps import Size

FORMAT, VERSION, ENTRY = "trainer model", 1, "model"

KINDS: tuple[Kind, ...] = get_args(Kind)
NUMERICS = {"class": ("exact", "fast"), "bfloat16": ("pairs", "tiles")}
"""The numerics settings that affect results bit for bit, and their values."""

FIELDS = {
    "format", "version", "kind", "class_names", "prepare", "finish", "input", "numerics", "category_ids", "evaluation",
    "card",
}  # fmt: skip
EVALUATED_DATA = ("reader", "batch_size", "valid_batch_size", "max_objects", "max_tokens", "scaled_decoding")
"""The settings of `data:` that an evaluation needs."""
MOST_CLASSES = 100_000
LONGEST_TEXT = 10_000
LARGEST_EXTENT = 8192
"""Maximum image side in pixels, and maximum number among the parameters of steps."""
DEEPEST = 8
"""Maximum nesting of a card or of parameters."""


@dataclass(frozen=True)
class Manifest:
    """The description of a model, apart from its programs.

    Attributes:
        sizes: (height, width) of the network's images; one program for each.
        channels, dtype: of the network's images.
        numerics: the settings under which the model was validated, by the names of `NUMERICS`.
        card: its origin.
        evaluation: `data` and `metrics` of the config of its validation.
        category_ids: the category ids of the classes in the training data's files, if any.
    """

    kind: Kind
    class_names: tuple[str, ...]
    prepare: tuple[Step, ...]
    finish: tuple[Step, ...]
    sizes: tuple[Size, ...]
    channels: int
    dtype: str
    numerics: Mapping[str, str]
    card: Card
    evaluation: Mapping[str, Any]
    category_ids: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "class_names": list(self.class_names),
            "prepare": steps_to_json(self.prepare),
            "finish": steps_to_json(self.finish),
            "input": {"sizes": [list(size) for size in self.sizes], "channels": self.channels, "dtype": self.dtype},
            "numerics": dict(self.numerics),
            "category_ids": None if self.category_ids is None else list(self.category_ids),
            "evaluation": dict(self.evaluation),
            "card": self.card.to_json(),
        }


def program_name(size: Size) -> str:
    """The name of the program for images of a size."""
    return f"{size[0]}x{size[1]}"


def manifest_from(data: Any, where: str) -> Manifest:
    """Parses a manifest from plain data.

    Raises:
        TrainerError: the data does not follow docs/export.md.
    """
    return _Reader(where).read(data)


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def need(self, holds: bool, problem: str, found: object = None, expected: object = None) -> None:
        if not holds:
            shown = None if found is None else f"{found!r:.200}"
            raise TrainerError(f"not an exported model: {problem}", where=self.where, found=shown, expected=expected)

    def read(self, data: Any) -> Manifest:
        self.need(
            isinstance(data, dict) and data.get("format") == FORMAT,
            "not an exported model",
            None,
            f'"format": "{FORMAT}"',
        )
        version = data.get("version")
        self.need(type(version) is int and version == VERSION, "another version of the format", version, VERSION)
        self._fields(data, FIELDS)
        self.need(isinstance(data["kind"], str) and data["kind"] in KINDS, "the kind", data["kind"], ", ".join(KINDS))
        prepare = self._steps(data["prepare"], "prepare", (Decode, Preparing))
        decodes = [isinstance(step, Decode) for step in prepare]
        self.need(decodes[:1] == [True] and not any(decodes[1:]), "the first step must be decode, and only the first")
        finish = self._steps(data["finish"], "finish", (Finishing,))
        self.need(bool(finish), "no step after the network")
        sizes, channels, dtype = self._input(data["input"])
        names = self._class_names(data["class_names"])
        return Manifest(
            data["kind"], names, prepare, finish, sizes, channels, dtype, self._numerics(data["numerics"]),
            self._card(data["card"]), self._evaluation(data["evaluation"]),
            self._category_ids(data["category_ids"], len(names)),
        )  # fmt: skip

    def _fields(self, value: Any, names: set[str]) -> None:
        self.need(isinstance(value, dict), "an entry", value, "an object")
        self.need(value.keys() == names, "fields", sorted(value), ", ".join(sorted(names)))

    def _class_names(self, value: Any) -> tuple[str, ...]:
        is_list = isinstance(value, list) and len(value) <= MOST_CLASSES
        is_text = is_list and all(isinstance(name, str) and 0 < len(name) <= LONGEST_TEXT for name in value)
        self.need(is_text, "the class names", value, "texts")
        return tuple(value)

    def _steps(self, value: Any, name: str, kinds: tuple[type[Step], ...]) -> tuple[Step, ...]:
        self.need(isinstance(value, list) and len(value) <= 100, name, value, "a list of steps")
        self.need(is_plain(value) and _is_bounded(value), f"parameters of {name}", value,
                  f"numbers from -{LARGEST_EXTENT} to {LARGEST_EXTENT}")  # fmt: skip
        try:
            steps = steps_from_json(value, where=f"{self.where}, {name}")
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            self.need(False, f"parameters of {name}", f"{type(error).__name__}: {error}")
            raise
        except TrainerError as error:  # raised by a transform, which does not know the position of its settings
            self.need(bool(error.where), f"parameters of {name}", error.message, error.expected)
            raise
        for step in steps:
            self.need(isinstance(step, kinds), f"the type of a step in {name}", step.name)
            wrong = misfit(type(step), {key: value for key, value in vars(step).items() if key != "settings"})
            if isinstance(step, TransformPicture) and wrong is None:
                wrong = misfit(type(step.made()), step.settings)
            self.need(wrong is None, f"the {wrong} of {step.name} in {name}", vars(step))
        return steps

    def _input(self, value: Any) -> tuple[tuple[Size, ...], int, str]:
        self._fields(value, {"sizes", "channels", "dtype"})
        sizes, channels, dtype = value["sizes"], value["channels"], value["dtype"]
        is_list = isinstance(sizes, list) and 0 < len(sizes) <= 1000
        is_sizes = is_list and all(isinstance(size, list) and len(size) == 2 for size in sizes)
        is_extents = is_sizes and all(type(one) is int and 0 < one <= LARGEST_EXTENT for size in sizes for one in size)
        self.need(is_extents, "sizes of the network's images", sizes, "lists of a height and a width")
        self.need(type(channels) is int and channels in (1, 3), "channels", channels, "1 or 3")
        self.need(isinstance(dtype, str) and dtype in ("uint8", "float32"), "dtype", dtype, "uint8 or float32")
        found = tuple((size[0], size[1]) for size in sizes)
        self.need(len(set(found)) == len(found), "a duplicate size", sizes)
        return found, channels, dtype

    def _card(self, value: Any) -> Card:
        self._fields(value, {field.name for field in fields(Card)})
        wrong = None if is_plain(value) else "contents"
        wrong = wrong or misfit(Card, value)
        self.need(wrong is None, f"the card's {wrong}", value)
        return Card(**value)

    def _evaluation(self, value: Any) -> Mapping[str, Any]:
        self._fields(value, {"data", "metrics"})
        self._fields(value["data"], set(EVALUATED_DATA))
        reader = value["data"]["reader"]
        is_fit = isinstance(value["metrics"], list) and isinstance(reader, dict | None) and is_plain(value)
        self.need(is_fit and not names_own_code(value) and _stays_inside(reader), "evaluation settings", value)
        return dict(value)

    def _category_ids(self, value: Any, count: int) -> tuple[int, ...] | None:
        is_list = isinstance(value, list) and len(value) == count
        is_numbers = is_list and all(type(one) is int and abs(one) < 1 << 63 for one in value)
        self.need(value is None or is_numbers, "category ids", value, "null, or an integer for each class")
        return None if value is None else tuple(value)

    def _numerics(self, value: Any) -> Mapping[str, str]:
        self._fields(value, set(NUMERICS))
        for name, values in NUMERICS.items():
            is_known = isinstance(value[name], str) and value[name] in values
            self.need(is_known, f"the numerics' {name}", value[name], ", ".join(values))
        return dict(value)


def evaluation_from(value: Any, where: str) -> Mapping[str, Any]:
    """Checks the settings of an evaluation in a manifest, plain data.

    Raises:
        TrainerError: they are not those of docs/export.md, name code, or a path outside of the data folder.
    """
    return _Reader(where)._evaluation(value)


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is null, a boolean, a finite number, text, or lists and objects of these with limited nesting."""
    if isinstance(value, dict):
        return depth < DEEPEST and all(
            len(key) <= LONGEST_TEXT and is_plain(one, depth + 1) for key, one in value.items()
        )
    if isinstance(value, list):
        return depth < DEEPEST and all(is_plain(one, depth + 1) for one in value)
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63)


def _is_bounded(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_is_bounded, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int | float) or abs(value) <= LARGEST_EXTENT


def names_own_code(value: Any) -> bool:
    """Whether a text in the value names a class in a file, which reading the config would import."""
    if isinstance(value, dict | list):
        return any(map(names_own_code, value.values() if isinstance(value, dict) else value))
    return names_own_class(value)


def _stays_inside(value: Any) -> bool:
    """Whether no text in the value is a path outside of the data folder."""
    if isinstance(value, dict | list):
        return all(map(_stays_inside, value.values() if isinstance(value, dict) else value))
    if not isinstance(value, str):
        return True
    return "\0" not in value and ".." not in PurePath(value).parts and not PurePath(value).is_absolute()
