"""Writing an exported model: the pipeline's network becomes a program for each size of its pictures."""

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
"""Of a model without a config: the layout of a folder is detected, and nothing is measured."""

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
    """Write a pipeline, whose modules are in inference mode, as one file without code; what was written.

    Args:
        path: the file; replaced in one go.
        numerics: the settings of numerics by which the model was validated: class, bfloat16.
        card: where the model comes from.
        evaluation: `data` and `metrics` of the config, by which validation measured it.
        category_ids: the classes' numbers in the training data's own files, where they have any.
        picture_sizes: (height, width) of pictures that the model is to take; needed where the network's pictures are
            not all of one size.
        precision: of the network's products, as in `engine.autocast`.

    Raises:
        TrainerError: a step is code of the user's own, the network's pictures have many sizes of which none is given,
            its operations depend on the batch size in a way that a file does not hold, or the file can't be written.
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
    manifest_from(json.loads(text), str(path))  # what is written can be read
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
    """The sizes of the network's pictures, for pictures of the given sizes or of any."""
    if picture_sizes:
        shapes = [rows_of(pipeline, size)[0].shape for size in picture_sizes]
        return tuple(dict.fromkeys((shape[2], shape[3]) for shape in shapes))
    found = sizes_of(pipeline)
    if len(found) == 1:
        return tuple(found)
    raise TrainerError(
        "the network's pictures have as many sizes as the pictures that it is given, and an exported model has a "
        "program for each", found=", ".join(f"{height} x {width}" for height, width in sorted(found)),
        expected="the sizes of pictures that it is to take",
        hint="Say which with --size HEIGHTxWIDTH (several times, if need be), or resize pictures in "
        "data.transforms.valid.",
    )  # fmt: skip


def _check_built_in(step: Step) -> None:
    """Refuse a step that does not come with trainer: the file would need the user's code."""
    kind = type(step)
    if kind.__module__.startswith(_BUILT_IN):
        return
    raise TrainerError(
        "a step of the pipeline is code of your own, which an exported model does not hold", where=line_of(kind),
        found=kind.__qualname__, expected="the steps of trainer.learner.inference",
        hint="Compute it in the pipeline's network, with the engine's operations.",
    )  # fmt: skip
