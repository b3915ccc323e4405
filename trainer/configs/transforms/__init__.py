"""`data.transforms:` transforms of the items, by split. To add one, write a class in `datasets/transforms`, a section
here whose `code` names it, and a row in table.py.
"""

from trainer.configs.transforms.section import TransformsConfig
from trainer.configs.transforms.table import TRANSFORMS, TransformConfig
from trainer.configs.transforms.transforming import OwnTransform, Transforming

__all__ = ["TRANSFORMS", "OwnTransform", "TransformConfig", "Transforming", "TransformsConfig"]
