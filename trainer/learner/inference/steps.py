"""Steps of a pipeline before and after the network: plain data with a name and a version, stored as JSON.

A step whose computation changes gets a new version: a model exported with the previous version is then rejected instead
of computing something else.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from trainer import TrainerError
from trainer.datasets.transforms.objects import placement
from trainer.datasets.windows import Window

Size = tuple[int, int]
"""Height and width in pixels."""


@dataclass(frozen=True)
class Placement:
    """The position of the original image in the network's input.

    Attributes:
        size: size of the original image, after its EXIF rotation.
        frame: size of the network's image; with tiles, of the whole image.
        top, left, height, width: the rectangle of the frame with the original image; parts of it may lie outside.
        windows: the tiles of the frame that are rows of the network's input; none: the frame is the only row.
        affine: float32 [3, 3], maps (x, y, 1) of the frame to the original image, as the field `placement` of an item.
    """

    size: Size
    frame: Size
    top: float
    left: float
    height: float
    width: float
    windows: tuple[Window, ...] = ()
    affine: np.ndarray = field(default_factory=lambda: np.eye(3, dtype=np.float32), compare=False, repr=False)

    @classmethod
    def of(cls, size: Size, decoded: Size) -> Placement:
        """The placement of an image of `size` that was decoded as `decoded`, possibly smaller."""
        return cls(size, decoded, 0, 0, *decoded, affine=placement(size, decoded))

    def resized(self, frame: Size) -> Placement:
        """The placement after the frame was resized."""
        down, across = frame[0] / self.frame[0], frame[1] / self.frame[1]
        return replace(self, frame=frame, top=self.top * down, left=self.left * across,
                       height=self.height * down, width=self.width * across)  # fmt: skip

    def moved(self, down: int, right: int, frame: Size) -> Placement:
        """The placement after the content was moved within a frame of another size, by padding or a crop."""
        return replace(self, frame=frame, top=self.top + down, left=self.left + right)

    def boxes(self, boxes: np.ndarray) -> np.ndarray:
        """Converts boxes float32 [N, 4] (left, top, right, bottom) from the frame to pixels of the original image.

        The result equals that of `placing.placed`, with which validation evaluates boxes, bit for bit.
        """
        x, y = boxes[:, 0::2, None], boxes[:, None, 1::2]
        corners = [row[0] * x + row[1] * y + row[2] for row in self.affine[:2]]
        edges = [extreme(one, axis=(1, 2)) for extreme in (np.min, np.max) for one in corners]
        return np.stack(edges, axis=1)

    def visible(self) -> tuple[slice, slice]:
        """Rows and columns of the frame that show the original image."""
        top, left = max(round(self.top), 0), max(round(self.left), 0)
        bottom = min(round(self.top + self.height), self.frame[0])
        return slice(top, bottom), slice(left, min(round(self.left + self.width), self.frame[1]))

    def labels(self, labels: np.ndarray, outside: int = 0) -> np.ndarray:
        """Converts labels [H, W] of the frame to the original image: the nearest label, or `outside` without one.

        Only crops if the image was not resized.
        """
        if (round(self.height), round(self.width)) == self.size:
            down = np.arange(self.size[0]) + round(self.top)
            across = np.arange(self.size[1]) + round(self.left)
        else:
            down, across = (
                np.floor(start + (np.arange(extent) + 0.5) * (shown / extent)).astype(np.int64)
                for start, shown, extent in (
                    (self.top, self.height, self.size[0]), (self.left, self.width, self.size[1]),
                )
            )  # fmt: skip
        rows, columns = (
            np.clip(places, 0, extent - 1) for places, extent in zip((down, across), self.frame, strict=True)
        )
        found = labels[np.ix_(rows, columns)]
        found[(down != rows), :] = outside
        found[:, (across != columns)] = outside
        return found


@dataclass(frozen=True)
class Prepared:
    """An image on its way to the network: pixels [H, W, C], or tiles [T, h, w, C]."""

    pixels: np.ndarray
    placement: Placement


@dataclass(frozen=True)
class Step:
    """Base class of steps; the fields of a subclass are its parameters, in JSON types.

    Attributes:
        name: its name in files; version: version of its computation.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1

    def to_json(self) -> dict[str, Any]:
        """Name, version and parameters."""
        return {"name": self.name, "version": self.version, **asdict(self)}


def line_of(kind: type) -> str:
    """The file and line of a class; its module if it is not from a file."""
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"
    except (OSError, TypeError):
        return kind.__module__


_KINDS: dict[str, type[Step]] = {}


def built_in(kind: type[Step]) -> type[Step]:
    """Adds a step class to the table of steps that JSON may name."""
    _KINDS[kind.name] = kind
    return kind


def steps_to_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps as plain data."""
    return [step.to_json() for step in steps]


def steps_from_json(data: Any, *, where: str) -> tuple[Step, ...]:
    """Creates steps from plain data.

    Raises:
        TrainerError: an unknown step or version, or unknown parameters.
    """
    if not isinstance(data, list):
        raise TrainerError("not a list of steps", where=where, found=type(data).__name__)
    return tuple(_step(one, f"{where}[{number}]") for number, one in enumerate(data))


def _step(data: Any, where: str) -> Step:
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise TrainerError("not a step", where=where, found=repr(data)[:80], expected="{name, version, …}")
    name, version = data["name"], data.get("version")
    kind = _KINDS.get(name)
    if kind is None:
        raise TrainerError("unknown step", where=where, found=name[:80], expected=", ".join(sorted(_KINDS)))
    if version != kind.version:
        raise TrainerError(
            f"unknown version of the step {name}", where=where, found=repr(version)[:80], expected=kind.version,
            hint="Export the model again, or use the version of trainer that exported it.",
        )  # fmt: skip
    given = {key: _frozen(value) for key, value in data.items() if key not in ("name", "version")}
    names = {one.name for one in fields(kind)}
    if given.keys() != names:
        raise TrainerError(f"unknown parameters of the step {name}", where=where,
                           found=", ".join(given)[:200], expected=", ".join(sorted(names)))  # fmt: skip
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise TrainerError(f"invalid parameters of the step {name}", where=where, found=str(error)[:200]) from error


def _frozen(value: Any) -> Any:
    """Converts JSON lists to tuples."""
    if isinstance(value, Mapping):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
