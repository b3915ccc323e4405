"""Converts boxes between formats: COCO, Pascal VOC, YOLO."""

from trainer.datasets.convert.converting import FORMATS, Conversion, convert

__all__ = ["FORMATS", "Conversion", "convert"]
