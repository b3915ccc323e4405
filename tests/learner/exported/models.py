"""Small models with random weights, one of each kind of result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.learner import inference
from trainer.learner.exported import Card, write_exported
from trainer.learner.inference import Pipeline, TransformPicture

EXACT = {"class": "exact", "bfloat16": "pairs"}
CARD = Card("test", metrics={"valid/accuracy": 0.5}, data={"license": None, "batch_size": 4})


class Features(nn.Module):
    """uint8 [N, 3, H, W] to float32 [N, C, H, W]."""

    def __init__(self, channels: int) -> None:
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Conv2d(8, channels, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        x = nn.functional.relu(self.norm(self.first(images.astype(engine.float32) * (1 / 255))))
        return self.last(x)


def features(channels: int) -> Features:
    """With weights that are the same every time."""
    return Features(channels).set_seed(5, "net").eval()


def classification() -> Pipeline:
    net = features(3)
    return Pipeline(
        "classification", ("cat", "dog", "bird"),
        prepare=(inference.Decode(), TransformPicture("resize", {"size": (16, 24)})),
        network=lambda images: {"logits": engine.mean(net(images), axis=(2, 3))},
        finish=(inference.Softmax(),),
    )  # fmt: skip


def detections() -> Pipeline:
    net = features(5)

    def network(images: Tensor) -> dict[str, Tensor]:
        maps = net(images)
        rows = engine.permute_dims(maps, (0, 2, 3, 1)).reshape((images.shape[0], -1, 5))
        scores, order = engine.top_k(engine.logistic(rows[:, :, 4]), 6, axis=1)
        corners = engine.cumulative_sum(engine.abs(rows[:, :, :4]) * 9, axis=2)
        boxes = engine.take_along_axis(corners, engine.expand_dims(order, axis=-1), axis=1)
        return {"boxes": boxes, "scores": scores, "classes": engine.remainder(order, 3) - 1}

    return Pipeline(
        "detections", ("cat", "dog"),
        prepare=(inference.Decode(), TransformPicture("letterbox", {"size": (24, 24), "fill": 0})),
        network=network,
        finish=(inference.BoxesToPicture(), inference.SelectByScore(0.1)),
    )  # fmt: skip


def instances() -> Pipeline:
    net = features(4)

    def network(images: Tensor) -> dict[str, Tensor]:
        maps = net(images)
        return {"maps": engine.concat([engine.logistic(maps[:, :2]), maps[:, 2:] * 8], axis=1)}

    return Pipeline(
        "instances", ("cell",),
        prepare=(inference.Decode(), TransformPicture("pad", {"size": (48, 64)})),
        network=network,
        finish=(inference.GroupInstances({"min_pixels": 3}), inference.SelectByScore()),
    )  # fmt: skip


def semantic() -> Pipeline:
    net = features(3)
    return Pipeline(
        "semantic", ("ground", "road", "house"),
        prepare=(inference.Decode(), inference.Tile(16, 2)),
        network=lambda images: {"scores": nn.functional.softmax(net(images), axis=1)},
        finish=(inference.LabelPixels(),),
    )  # fmt: skip


def image() -> Pipeline:
    net = features(3)
    return Pipeline(
        "image", (),
        prepare=(inference.Decode(), TransformPicture("resize", {"size": (16, 16)})),
        network=lambda images: {"picture": engine.tanh(net(images))},
        finish=(inference.ToPixels(),),
    )  # fmt: skip


PIPELINES = {each.__name__: each for each in (classification, detections, instances, semantic, image)}


def written(path: Path, kind: str, **settings: Any) -> Pipeline:
    """Write the model of a kind; its pipeline."""
    pipeline = PIPELINES[kind]()
    write_exported(path, pipeline, numerics=EXACT, card=CARD, **settings)
    return pipeline


def pictures() -> list[np.ndarray]:
    """uint8 [H, W, 3] of several sizes, all smaller than a border makes them."""
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((20, 30), (33, 17), (48, 64))]


@dataclass(frozen=True)
class Predicted:
    """Arrays of a result as bytes, by name."""

    arrays: dict[str, tuple[str, tuple[int, ...], bytes]]


def predicted(pipeline: Pipeline, picture: np.ndarray) -> Predicted:
    """The result of a picture, all of its rows in one batch."""
    rows, placement = inference.prepare(pipeline, picture)
    outputs = engine.trace(pipeline.network)(np.ascontiguousarray(rows))
    result = inference.finish(pipeline, {name: value.numpy() for name, value in outputs.items()}, placement)
    return Predicted({name: (values.dtype.name, values.shape, values.tobytes()) for name, values in result.items()})
