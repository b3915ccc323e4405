"""COCO evaluation of boxes, masks and keypoints."""

from trainer.metrics.coco.columns import Detections, Kind, Scene, Truths, area_of
from trainer.metrics.coco.evaluation import Evaluation, evaluate
from trainer.metrics.coco.settings import Settings, settings_of

__all__ = ["Detections", "Evaluation", "Kind", "Scene", "Settings", "Truths", "area_of", "evaluate", "settings_of"]
