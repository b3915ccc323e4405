"""Inference: from an image, a text or a series to a result, identical in validation, prediction and export."""

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
from trainer.learner.inference.sequences import Forecasting, TextClassification, TextGeneration
from trainer.learner.inference.steps import Placement, Prepared, Step, steps_from_json, steps_to_json

__all__ = [
    "BoxesToPicture",
    "Decode",
    "Forecasting",
    "GroupInstances",
    "LabelPixels",
    "Pipeline",
    "Placement",
    "Prepared",
    "SelectByScore",
    "Softmax",
    "Step",
    "StretchGray",
    "TextClassification",
    "TextGeneration",
    "Tile",
    "ToPixels",
    "TransformPicture",
    "finish",
    "preparation",
    "prepare",
    "steps_from_json",
    "steps_to_json",
]
