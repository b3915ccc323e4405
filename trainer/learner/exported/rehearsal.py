"""Checks that the parts of a model fit together, with black images and zeros as the network's outputs.

A file is checked before its first prediction, and a model before it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from trainer import TrainerError
from trainer.engine import DType
from trainer.learner.exported.manifest import Manifest
from trainer.learner.inference import Pipeline, Placement, finish, prepare
from trainer.learner.inference.finishing import Arrays
from trainer.learner.inference.steps import Size

PROBES: Sequence[Size] = ((64, 48), (48, 64), (200, 120), (1, 1))
"""Image sizes that show whether the network's images all have one size."""

MISFITS = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, MemoryError, AssertionError)
"""Exceptions that steps raise for parameters or arrays that don't fit."""

Signature = Mapping[str, tuple[DType, tuple[int | str, ...]]]
"""Dtype and shape of each output of a program; an extent that depends on the batch is text."""


def rows_of(pipeline: Pipeline, size: Size) -> tuple[np.ndarray, Placement]:
    """The network's input [T, C, h, w] for a black image of a size.

    Raises:
        TrainerError: the steps don't support this size.
    """
    return prepare(pipeline, np.zeros((*size, 3), np.uint8))


def sizes_of(pipeline: Pipeline) -> set[Size]:
    """The sizes of the network's images for several image sizes; unsupported sizes are left out."""
    found = set()
    for probe in PROBES:
        try:
            height, width = rows_of(pipeline, probe)[0].shape[2:]
        except TrainerError:
            continue
        found.add((height, width))
    return found


def rehearse(pipeline: Pipeline, manifest: Manifest, programs: Mapping[Size, Signature], where: str) -> None:
    """Checks that the steps and the programs produce results of the model's kind.

    Raises:
        TrainerError: they don't.
    """

    def need(holds: bool, problem: str, found: object = None, expected: object = None) -> None:
        if not holds:
            raise TrainerError(f"not an exported model: {problem}", where=where, found=found, expected=expected)

    has_fitting = False
    larger = [(2 * height + 7, 2 * width + 7) for height, width in manifest.sizes[:1]]
    for size in (*manifest.sizes, *larger, *PROBES):
        try:
            rows, placement = rows_of(pipeline, size)
        except TrainerError:
            continue  # for example, the image is too large for a border
        except MISFITS as error:
            need(False, "the steps before the network fail", _brief(error))
            raise
        found, expected = f"{rows.dtype}, {rows.shape[1]} channels", f"{manifest.dtype}, {manifest.channels} channels"
        need(found == expected, "the steps before the network produce images that don't fit it", found, expected)
        signature = programs.get((rows.shape[2], rows.shape[3]))
        if signature is None:
            continue
        has_fitting = True
        need(all(shape[:1] == ("batch",) for _, shape in signature.values()), "an output without one row per image")
        outputs = {
            name: np.zeros(_shape(shape, len(rows)), dtype.storage) for name, (dtype, shape) in signature.items()
        }
        try:
            _check_result(finish(pipeline, outputs, placement), manifest, placement.size, need)
        except MISFITS as error:
            need(False, "the steps after the network don't fit its outputs", _brief(error))
            raise
    need(has_fitting, "no image size leads to the size of a program", expected=", ".join(
        f"{height}x{width}" for height, width in manifest.sizes
    ))  # fmt: skip


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _shape(shape: Sequence[int | str], rows: int) -> tuple[int, ...]:
    if not all(type(extent) is int for extent in shape[1:]):
        raise ValueError(f"an output of shape {list(shape)}")
    return (rows, *(int(extent) for extent in shape[1:]))


Need = Callable[..., None]


def _check_result(result: Arrays, manifest: Manifest, size: Size, need: Need) -> None:
    """Rejects a result that is not of the model's kind."""
    count, classes = len(result.get("scores", ())), len(manifest.class_names)
    of_objects = {"scores": ("f", (count,)), "classes": ("i", (count,))}
    forms: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]] = {
        "classification": {"scores": ("f", (classes,))},
        "detections": {**of_objects, "boxes": ("f", (count, 4))},
        "instances": {**of_objects, "segments": ("i", size)},
        "semantic": {"labels": ("iu", size)},
        "image": {"image": ("u", (*size, 3))},
    }
    expected = forms[manifest.kind]
    need(classes > 0 or manifest.kind == "image", "no class names")
    need(
        result.keys() == expected.keys(),
        f"the result is not of the kind {manifest.kind}",
        ", ".join(result),
        ", ".join(expected),
    )
    for name, (kinds, shape) in expected.items():
        values = result[name]
        is_image = name == "image" and values.ndim == 3 and values.shape[2] in (1, 3)
        need(values.dtype.kind in kinds and (values.shape == shape or is_image), f"the result's {name}",
             f"{values.dtype}{list(values.shape)}", f"{list(shape)}")  # fmt: skip
