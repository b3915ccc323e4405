"""The inference pipeline of a task: from an image to the network's input, and from its outputs to a result.

    image   ── prepare ──> rows [T, C, h, w] ── network, in batches ──> outputs ── finish ──> the arrays of a result

Validation uses the same `network`, so metrics, samples and predictions come from the same computation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainer import TrainerError
from trainer.learner.inference.finishing import Arrays, Finishing, SelectByScore
from trainer.learner.inference.preparing import Decode, Preparing
from trainer.learner.inference.steps import Placement, Step

if TYPE_CHECKING:
    from trainer.engine import Tensor

Kind = Literal["classification", "detections", "instances", "semantic", "image"]


@dataclass(frozen=True)
class Pipeline:
    """Steps from an image to a result.

    Attributes:
        kind: kind of the results.
        class_names: class names in the order of the labels; empty for images.
        prepare: the steps to the network's input, `Decode` first.
        network: maps images [N, C, h, w] to outputs by name; images have the dtype of the prepared ones (uint8, unless
            a transform normalizes them). A pure function of the task's modules, to be traced.
        finish: the steps from the outputs for one image to the arrays of its result: for classification `scores` [C];
            for detections `boxes` [N, 4], `scores`, `classes` [N]; for instances `segments` [H, W], `scores`, `classes`
            [N]; for semantic `labels` [H, W]; for image `image` [H, W, C].
    """

    kind: Kind
    class_names: tuple[str, ...]
    prepare: tuple[Step, ...]
    network: Callable[[Tensor], Mapping[str, Tensor]]
    finish: tuple[Step, ...]

    def selecting(self, threshold: float | None, classes: tuple[int, ...] | None) -> Pipeline:
        """The same pipeline with another score threshold (None: unchanged), and only these classes (None: all).

        Raises:
            TrainerError: the results of this kind have no scores to select by.
        """
        if threshold is None and classes is None:
            return self
        if not any(isinstance(step, SelectByScore) for step in self.finish):
            raise TrainerError(
                "results of this model can't be selected by score or class", found=self.kind,
                expected="a model whose results are detections or instances",
            )  # fmt: skip
        return replace(self, finish=tuple(
            replace(step, threshold=step.threshold if threshold is None else threshold, classes=classes)
            if isinstance(step, SelectByScore) else step
            for step in self.finish
        ))  # fmt: skip


def prepare(pipeline: Pipeline, picture: Path | np.ndarray) -> tuple[np.ndarray, Placement]:
    """The network's input [T, C, h, w] for an image file or uint8 [H, W, 3], and the position of the image in it.

    Raises:
        TrainerError: the image can't be read, or a step doesn't support it.
    """
    decode, *others = pipeline.prepare
    assert isinstance(decode, Decode)
    prepared = decode(picture)
    for step in others:
        assert isinstance(step, Preparing)
        prepared = step(prepared)
    pixels = prepared.pixels if prepared.placement.windows else prepared.pixels[None]
    return pixels.transpose(0, 3, 1, 2), prepared.placement


def finish(pipeline: Pipeline, outputs: Mapping[str, np.ndarray], placement: Placement) -> Arrays:
    """The arrays of a result from the network's outputs for the rows of one image."""
    arrays = dict(outputs)
    for step in pipeline.finish:
        assert isinstance(step, Finishing)
        arrays = step(arrays, placement)
    return arrays
