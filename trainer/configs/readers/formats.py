"""The data formats, one section each.

A path may contain `{split}`, which is replaced by the name of each split.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainer.configs.readers.reading import Reading

_Color = tuple[
    Annotated[int, Field(ge=0, le=255)], Annotated[int, Field(ge=0, le=255)], Annotated[int, Field(ge=0, le=255)]
]
_Classes = Annotated[tuple[str, ...], Field(min_length=1)]
_Unit = Literal["characters", "bytes", "words", "byte_pairs"]
_UNIT = (
    "Unit of a token. words: runs of letters and digits, single punctuation marks, line ends; bytes: those of UTF-8; "
    "byte_pairs: bytes and frequent sequences of bytes, learned from the texts of train."
)
_VOCABULARY_SIZE = (
    "Number of tokens in the vocabulary. Characters and words: at most, the most frequent ones; null: all. Byte pairs: "
    "at least 256; null: 4096."
)
_LENGTH = "Number of tokens per item. Consecutive items overlap by one token."


_OBJECTS = ("image", "boxes", "labels", "crowd", "area", "image_id", "size", "placement")


class _Images(Reading):
    channels: Literal[1, 3] | None = Field(
        3,
        description="Number of channels of every image, 1 (grayscale) or 3 (RGB); null: 1 if the image is grayscale, "
        "otherwise 3.",
    )


class AutoReader(Reading):
    """Detects the format and the paths of each split, as `trainer data inspect` reports them."""

    code: ClassVar[str] = "auto"

    name: Literal["auto"]
    format: Literal["coco", "yolo", "voc", "image_folder", "segmentation", "pairs", "table", "idx", "text",
                    "text_classes"] | None = Field(
        None, description="Consider layouts of this format only, for a folder that can be read in several ways; null: "
            "all formats."
    )  # fmt: skip
    classes: _Classes | None = Field(
        None, description="Class names in the order of the labels; null: the detected names."
    )
    channels: Literal[1, 3] | None = Field(
        None, description="Number of channels of every image, 1 (grayscale) or 3 (RGB); null: the format's default."
    )
    masks: bool = Field(False, description="Read instance masks as well, from COCO segmentations.")
    keypoints: bool = Field(False, description="Read keypoints as well, from COCO annotations.")
    direction: Literal["left_to_right", "right_to_left"] | None = Field(
        None, description="Direction from input to target image, if both are in one file; null: left_to_right."
    )

    def fields(self) -> None:
        return None

    @property
    def form(self) -> str | None:
        """The format to look for: the named one, or the one whose reader has the given keys."""
        needed = {"coco": self.masks or self.keypoints, "pairs": self.direction is not None}
        return self.format or next((form for form, is_needed in needed.items() if is_needed), None)


class CocoReader(_Images):
    """COCO: boxes, and masks or keypoints, from one JSON file per split."""

    code: ClassVar[str] = "coco:CocoDataset"
    gives: ClassVar[tuple[str, ...]] = _OBJECTS
    paths: ClassVar[tuple[str, ...]] = ("images", "annotations")

    name: Literal["coco"]
    images: str = Field("images", description="Folder of the images, relative to data.root.")
    annotations: str = Field(description="JSON annotation file, relative to data.root.")
    masks: bool = Field(False, description="Read instance masks as well, from the segmentations.")
    keypoints: bool = Field(False, description="Read keypoints as well.")

    def fields(self) -> tuple[str, ...]:
        asked = {"masks": self.masks, "keypoints": self.keypoints}
        return (*type(self).gives, *(name for name, is_read in asked.items() if is_read))


class CocoPanopticReader(_Images):
    """COCO panoptic segmentation: a JSON file per split and a PNG file of segments per image."""

    code: ClassVar[str] = "coco_panoptic:CocoPanoptic"
    gives: ClassVar[tuple[str, ...]] = (*_OBJECTS, "mask", "masks")
    paths: ClassVar[tuple[str, ...]] = ("images", "segments", "annotations")

    name: Literal["coco_panoptic"]
    images: str = Field("images", description="Folder of the images, relative to data.root.")
    segments: str = Field(description="Folder of the PNG files with segments, relative to data.root.")
    annotations: str = Field(description="JSON annotation file, relative to data.root.")


class VocReader(_Images):
    """Pascal VOC: an XML file of boxes per image."""

    code: ClassVar[str] = "voc:VocDataset"
    gives: ClassVar[tuple[str, ...]] = _OBJECTS
    paths: ClassVar[tuple[str, ...]] = ("images", "annotations", "image_set")

    name: Literal["voc"]
    images: str = Field("JPEGImages", description="Folder of the images, relative to data.root.")
    annotations: str = Field("Annotations", description="Folder of the XML annotation files, relative to data.root.")
    image_set: str | None = Field(
        None,
        description="Text file with one image name per line, such as ImageSets/Main/{split}.txt; null: every XML file.",
    )
    classes: _Classes | None = Field(
        None, description="Class names in the order of the labels; null: the names that occur, sorted."
    )
    one_based: bool = Field(
        False,
        description="Whether pixel coordinates start at 1, as in the original VOC data; false: at 0, as most "
        "tools write them.",
    )


class YoloReader(_Images):
    """YOLO: a text file of boxes per image."""

    code: ClassVar[str] = "yolo:YoloDataset"
    gives: ClassVar[tuple[str, ...]] = ("image", "boxes", "labels", "image_id", "size", "placement")
    paths: ClassVar[tuple[str, ...]] = ("images", "labels", "image_set", "classes")

    name: Literal["yolo"]
    images: str = Field("images", description="Folder of the images, relative to data.root.")
    labels: str | None = Field(
        None,
        description="Folder of the label files, relative to data.root; null: the path of the images with "
        "`labels` instead of `images`.",
    )
    image_set: str | None = Field(
        None,
        description="Text file with one image path per line, such as {split}.txt; null: every image of the folder.",
    )
    classes: str | _Classes = Field(
        "data.yaml",
        description="Class names in the order of the labels, or a file that contains them: `names` of a YAML file, "
        "or one name per line.",
    )


class ImageFolderReader(_Images):
    """Image classification: a folder of images per class."""

    code: ClassVar[str] = "image_folder:ImageFolder"
    gives: ClassVar[tuple[str, ...]] = ("image", "label", "size")
    paths: ClassVar[tuple[str, ...]] = ("images",)

    name: Literal["image_folder"]
    images: str = Field(".", description="Folder that contains one folder per class, relative to data.root.")
    classes: _Classes | None = Field(
        None, description="Class names in the order of the labels; null: the names of all folders, sorted."
    )


class SegmentationReader(_Images):
    """Semantic segmentation: images and masks with the same names in two folders."""

    code: ClassVar[str] = "segmentation:SegmentationFolders"
    gives: ClassVar[tuple[str, ...]] = ("image", "mask", "size")
    paths: ClassVar[tuple[str, ...]] = ("images", "masks")

    name: Literal["segmentation"]
    images: str = Field("images", description="Folder of the images, relative to data.root.")
    masks: str = Field("masks", description="Folder of the masks, relative to data.root.")
    classes: _Classes | None = Field(
        None, description="Class names in the order of the mask values; null: the values that occur in the masks."
    )
    colors: tuple[_Color, ...] | None = Field(
        None, description="RGB color of each class in the masks, from 0 to 255; null: mask pixels hold class indices."
    )
    ignore: tuple[int, ...] = Field((255,), description="Values of mask pixels that are ignored by losses and metrics.")
    ignore_colors: tuple[_Color, ...] = Field(
        (), description="RGB colors of mask pixels that are ignored by losses and metrics."
    )
    mask_suffix: str = Field("", description="Suffix of a mask's file name after the name of its image, such as _mask.")


class PairsReader(_Images):
    """Image pairs: side by side in one file, or in two folders under the same names."""

    code: ClassVar[str] = "pairs:PairedImages"
    gives: ClassVar[tuple[str, ...]] = ("image", "target", "size")
    paths: ClassVar[tuple[str, ...]] = ("images", "targets")

    name: Literal["pairs"]
    images: str = Field(
        ".", description="Folder of the input images, or of files with both images side by side, relative to data.root."
    )
    targets: str | None = Field(
        None,
        description="Folder of the target images, relative to data.root; null: both images are side by side in "
        "one file.",
    )
    direction: Literal["left_to_right", "right_to_left"] = Field(
        "left_to_right", description="Direction from input to target image; right_to_left also swaps two folders."
    )


class IdxReader(Reading):
    """IDX: one file of images and one of labels, as in MNIST."""

    code: ClassVar[str] = "idx:idx_images"
    gives: ClassVar[tuple[str, ...]] = ("image", "label")
    paths: ClassVar[tuple[str, ...]] = ("images", "labels")

    name: Literal["idx"]
    images: str = Field(description="IDX file of the images, relative to data.root.")
    labels: str = Field(description="IDX file of the labels, relative to data.root.")
    classes: _Classes = Field(tuple("0123456789"), description="Class names of the labels 0, 1, …; null: the numbers.")


class TableReader(_Images):
    """Table: CSV with column names in its first line, or JSON lines."""

    code: ClassVar[str] = "table:Table"
    paths: ClassVar[tuple[str, ...]] = ("file", "images")

    name: Literal["table"]
    file: str = Field(description="Table file (.csv, .tsv, .jsonl or .ndjson), relative to data.root.")
    features: _Classes | None = Field(
        None,
        description="Columns of numbers used as input; null: all columns without another use, or none if `image` "
        "or `text` is set.",
    )
    label: str | None = Field(None, description="Column of the class; null: none.")
    labels: tuple[str, ...] = Field(
        (), description="Columns of 0 or 1, one per class, for multi-label data; empty: none."
    )
    value: str | None = Field(None, description="Column of the number to predict (regression); null: none.")
    text: str | None = Field(None, description="Column of a text, whose tokens are used as input; null: none.")
    unit: _Unit = Field("characters", description=_UNIT)
    vocabulary_size: int | None = Field(None, gt=0, description=_VOCABULARY_SIZE)
    image: str | None = Field(None, description="Column of the image path; null: none.")
    images: str = Field(".", description="Folder of the images, relative to data.root.")
    classes: _Classes | None = Field(
        None, description="Class names in the order of the labels; null: the values that occur, sorted."
    )
    split_column: str | None = Field(
        None, description="Column with each row's split (train, val or test); null: the file is one split."
    )
    split_value: str | None = Field(
        None, description="Read only the rows whose `split_column` has this value; null: each split gets its own rows."
    )

    def fields(self) -> tuple[str, ...]:
        has_input = self.image is not None or self.text is not None
        asked = {"features": self.features is not None or not has_input, "tokens": self.text is not None,
                 "label": self.label is not None, "labels_hot": bool(self.labels), "value": self.value is not None,
                 "image": self.image is not None, "size": self.image is not None}  # fmt: skip
        return tuple(name for name, is_read in asked.items() if is_read)

    @property
    def divides(self) -> bool:
        return self.text is not None


class _Tokens(Reading):
    """Settings of readers whose items are texts."""

    unit: _Unit = Field("characters", description=_UNIT)
    vocabulary_size: int | None = Field(None, gt=0, description=_VOCABULARY_SIZE)

    @property
    def divides(self) -> bool:
        return True


class TextReader(_Tokens):
    """One long text, cut into windows of tokens, to predict the next token."""

    code: ClassVar[str] = "text:TextFile"
    gives: ClassVar[tuple[str, ...]] = ("tokens",)
    paths: ClassVar[tuple[str, ...]] = ("file",)

    name: Literal["text"]
    file: str = Field(
        description="Text file in UTF-8, or folder of .txt files that are read in the order of their names, relative "
        "to data.root."
    )
    length: int = Field(129, ge=2, description=_LENGTH)
    fractions_by: Literal["order"] = Field(
        "order",
        description="How `fractions` are taken from the text. order: train is the start of the text, the other splits "
        "follow.",
    )


class DocumentsReader(_Tokens):
    """Many documents, one after the other with an end token after each, cut into rows of tokens."""

    code: ClassVar[str] = "documents:Documents"
    gives: ClassVar[tuple[str, ...]] = ("tokens",)
    paths: ClassVar[tuple[str, ...]] = ("folder",)

    name: Literal["documents"]
    folder: str = Field(
        ".",
        description="Folder of the documents with its subfolders, relative to data.root: each .txt file is a document, "
        "and each line of .jsonl and .ndjson files.",
    )
    text: str = Field("text", description="Field of a JSON line that has the text of the document.")
    unit: _Unit = Field("byte_pairs", description=_UNIT)
    length: int = Field(129, ge=2, description=_LENGTH)
    fractions_by: Literal["seed", "order"] = Field(
        "seed",
        description="How `fractions` of the documents are taken. seed: a random choice, the same for the same seed; "
        "order: from the end.",
    )


class TextClassesReader(_Tokens):
    """Text classification: a file per class with one text per line."""

    code: ClassVar[str] = "text:TextClasses"
    gives: ClassVar[tuple[str, ...]] = ("tokens", "label")
    paths: ClassVar[tuple[str, ...]] = ("folder",)

    name: Literal["text_classes"]
    folder: str = Field(".", description="Folder of the files <class>.txt, relative to data.root.")
    classes: _Classes | None = Field(
        None, description="Class names in the order of the labels; null: the names of all files, sorted."
    )
    fractions_by: Literal["seed"] = Field(
        "seed",
        description="How `fractions` are taken from train. seed: a random choice, the same for the same seed, with "
        "each class in the same proportion and all copies of a text in one split.",
    )


class SeriesReader(Reading):
    """Time series: windows over the rows of a table, to forecast what follows."""

    code: ClassVar[str] = "series:Series"
    gives: ClassVar[tuple[str, ...]] = ("history", "future")
    paths: ClassVar[tuple[str, ...]] = ("file",)

    name: Literal["series"]
    file: str = Field(
        description="Table file (.csv, .tsv, .jsonl or .ndjson) with its rows in the order of time, relative to "
        "data.root."
    )
    targets: _Classes = Field(description="Columns of numbers to forecast.")
    features: tuple[str, ...] = Field(
        (), description="Further columns of numbers that are known up to the time of the forecast; empty: none."
    )
    date: str | None = Field(
        None, description="Column of the time of each row, as in 2024-03-01; null: none, rows have equal distances."
    )
    input_length: int = Field(gt=0, description="Number of rows before the forecast that the model receives.")
    forecast_length: int = Field(1, gt=0, description="Number of rows to forecast.")
    step: int = Field(1, gt=0, description="Number of rows between the starts of two consecutive items.")
    regular: bool = Field(
        True,
        description="Whether times must have equal distances (minutes, days, months, …); a gap is then an error. Set "
        "false for trading days, for instance.",
    )
    scaling: Literal["standard", "none"] = Field(
        "standard",
        description="How columns are scaled. standard: mean 0 and standard deviation 1 over the training rows; none: "
        "values are used as they are.",
    )
    fractions_by: Literal["order"] = Field(
        "order",
        description="How `fractions` are taken from the table. order: train is the start, the other splits follow in "
        "time.",
    )

    @property
    def divides(self) -> bool:
        return True
