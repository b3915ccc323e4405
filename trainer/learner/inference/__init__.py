"""Inference: from an image to a result, identical in validation, prediction and an exported model."""

from trainer.learner.inference.finishing import (
    BoxesToPicture,
    GroupInstances,
    LabelPixels,
    SelectByScore,
    Softmax,
    ToPixels,
)
from trainer.learner.inference.pipeline import Pipeline, finish, prepare
from trainer.learner.inference.preparing import Decode, StretchGray, Tile, TransformPicture, preparation
from trainer.learner.inference.steps import Placement, Prepared, Step, steps_from_json, steps_to_json

__all__ = [
    "BoxesToPicture",
    "Decode",
    "GroupInstances",
    "LabelPixels",
    "Pipeline",
    "Placement",
    "Prepared",
    "SelectByScore",
    "Softmax",
    "Step",
    "StretchGray",
    "Tile",
    "ToPixels",
    "TransformPicture",
    "finish",
    "preparation",
    "prepare",
    "steps_from_json",
    "steps_to_json",
]
