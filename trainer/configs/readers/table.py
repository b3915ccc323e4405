"""The data formats by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from trainer.configs.choice import OWN_TAG, Choice
from trainer.configs.readers.reading import Reading

READERS: Mapping[str, str] = {
    "auto": "formats:AutoReader",
    "coco": "formats:CocoReader",
    "coco_panoptic": "formats:CocoPanopticReader",
    "voc": "formats:VocReader",
    "yolo": "formats:YoloReader",
    "image_folder": "formats:ImageFolderReader",
    "segmentation": "formats:SegmentationReader",
    "pairs": "formats:PairsReader",
    "idx": "formats:IdxReader",
    "table": "formats:TableReader",
    "documents": "formats:DocumentsReader",
    "series": "formats:SeriesReader",
    "text": "formats:TextReader",
    "text_classes": "formats:TextClassesReader",
    OWN_TAG: "reading:OwnReader",
}
"""Maps each format's name to its section, as file:Class in this folder."""

if TYPE_CHECKING:
    ReaderConfig = Reading
else:
    ReaderConfig = Annotated[Reading, Choice(Reading, READERS)]
