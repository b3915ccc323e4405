"""`data.transforms:` what happens to items on their way, by split. A further one is a class in `datasets/transforms`,
its section here, which says in `code` where that is, and its row in table.py; no other place knows of it.
"""

from trainer.configs.transforms.section import TransformsConfig
from trainer.configs.transforms.table import TRANSFORMS, TransformConfig
from trainer.configs.transforms.transforming import OwnTransform, Transforming

__all__ = ["TRANSFORMS", "OwnTransform", "TransformConfig", "Transforming", "TransformsConfig"]
