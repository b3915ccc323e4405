"""Writes exported models: the pipeline's network is compiled to a program for each image size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError, engine
from trainer.engine.export import capture_program, save_programs
from trainer.learner.exported.card import Card
from trainer.learner.exported.manifest import ENTRY, EVALUATED_DATA, Manifest, manifest_from, program_name
from trainer.learner.exported.rehearsal import rows_of, sizes_of
from trainer.learner.inference import Pipeline, Step
from trainer.learner.inference.steps import Size, line_of

NOTHING_TO_EVALUATE: Mapping[str, Any] = {
    "data": {**dict.fromkeys(EVALUATED_DATA), "batch_size": 8, "scaled_decoding": True},
    "metrics": [],
}
"""For a model without a config: the layout of a folder is detected, and no metrics are computed."""

_BUILT_IN = f"{Step.__module__.rpartition('.')[0]}."


def write_exported(
    path: str | Path,
    pipeline: Pipeline,
    *,
    numerics: Mapping[str, str],
    card: Card,
    evaluation: Mapping[str, Any] = NOTHING_TO_EVALUATE,
    category_ids: tuple[int, ...] | None = None,
    picture_sizes: Sequence[Size] = (),
    precision: str = "float32",
) -> Manifest:
    """Writes a pipeline, whose modules are in inference mode, as one file without code; returns the manifest.

    Args:
        path: the file; replaced atomically.
        numerics: the numerics settings of its validation: class, bfloat16.
        card: the origin of the model.
        evaluation: `data` and `metrics` of the config of its validation.
        category_ids: the category ids of the classes in the training data's files, if any.
        picture_sizes: (height, width) of images that the model must support; needed if the network's images don't all
            have one size.
        precision: of the network's matrix products, as in `engine.autocast`.

    Raises:
        TrainerError: a step is custom code, the network's images have many sizes and none is given, its operations
            depend on the batch size in an unsupported way, or the file can't be written.
    """
    for step in (*pipeline.prepare, *pipeline.finish):
        _check_built_in(step)
    sizes = _network_sizes(pipeline, picture_sizes)
    rows = next(
        rows for rows in (_prepared(pipeline, size) for size in (*picture_sizes, *sizes, (1, 1))) if rows is not None
    )
    channels = rows.shape[1]
    manifest = Manifest(
        pipeline.kind, pipeline.class_names, pipeline.prepare, pipeline.finish, sizes, channels, rows.dtype.name,
        numerics, card, evaluation, category_ids,
    )  # fmt: skip
    text = json.dumps(manifest.to_json(), separators=(",", ":"), allow_nan=False)
    manifest_from(json.loads(text), str(path))  # only a readable file is written
    programs = {}
    with engine.autocast(precision):
        for size in sizes:
            images = np.zeros((1, channels, *size), rows.dtype)
            programs[program_name(size)] = capture_program(pipeline.network, images, any_batch=True)
    save_programs(path, programs, {ENTRY: text})
    return manifest


def _prepared(pipeline: Pipeline, size: Size) -> np.ndarray | None:
    try:
        return rows_of(pipeline, size)[0]
    except TrainerError:
        return None


def _network_sizes(pipeline: Pipeline, picture_sizes: Sequence[Size]) -> tuple[Size, ...]:
    """The sizes of the network's images, for the given or any image sizes."""
    if picture_sizes:
        shapes = [rows_of(pipeline, size)[0].shape for size in picture_sizes]
        return tuple(dict.fromkeys((shape[2], shape[3]) for shape in shapes))
    found = sizes_of(pipeline)
    if len(found) == 1:
        return tuple(found)
    raise TrainerError(
        "the sizes of the network's images depend on the input images, and an exported model needs a program for "
            "each size", found=", ".join(f"{height}x{width}" for height, width in sorted(found)),
        expected="the image sizes that it must support",
        hint="Set them with --size HEIGHTxWIDTH (may be repeated), or resize images in data.transforms.valid.",
    )  # fmt: skip


def _check_built_in(step: Step) -> None:
    """Rejects a custom step: the file would need the user's code."""
    kind = type(step)
    if kind.__module__.startswith(_BUILT_IN):
        return
    raise TrainerError(
        "a step of the pipeline is custom code, which an exported model can't contain", where=line_of(kind),
        found=kind.__qualname__, expected="the steps of trainer.learner.inference",
        hint="Compute it in the pipeline's network, with operations of the engine.",
    )  # fmt: skip
