"""The formats, a section each.

A path may have `{split}` in it, which stands for each split's word.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainer.configs.readers.reading import Reading

_Colour = tuple[
    Annotated[int, Field(ge=0, le=255)], Annotated[int, Field(ge=0, le=255)], Annotated[int, Field(ge=0, le=255)]
]
_Classes = Annotated[tuple[str, ...], Field(min_length=1)]
_Unit = Literal["characters", "bytes", "words"]


_OBJECTS = ("image", "boxes", "labels", "crowd", "area", "image_id", "size", "placement")


class _Images(Reading):
    channels: Literal[1, 3] | None = Field(3, description="Of every image; null: 1 for grey ones, else 3.")


class AutoReader(Reading):
    """Detected: the format and the paths of each split are those that `trainer data inspect` says of the folder."""

    code: ClassVar[str] = "auto"

    name: Literal["auto"]
    format: Literal["coco", "yolo", "voc", "image_folder", "segmentation", "pairs", "table", "idx", "text",
                    "text_classes"] | None = Field(
        None, description="Only layouts of this format, for a folder that can be read in several ways; null: any."
    )  # fmt: skip
    classes: _Classes | None = Field(None, description="Class names in the order of the labels; null: those detected.")
    channels: Literal[1, 3] | None = Field(
        None, description="Channels of every image: 1 or 3; null: the format's default."
    )
    masks: bool = Field(False, description="Read the segmentations of COCO too.")
    keypoints: bool = Field(False, description="Read the keypoints of COCO too.")
    direction: Literal["left_to_right", "right_to_left"] | None = Field(
        None, description="From the image to its target, of pairs; null: left_to_right."
    )

    def fields(self) -> None:
        return None

    @property
    def form(self) -> str | None:
        """The format that is looked for: the one that is named, or the one whose reader has the keys that are set."""
        needed = {"coco": self.masks or self.keypoints, "pairs": self.direction is not None}
        return self.format or next((form for form, is_needed in needed.items() if is_needed), None)


class CocoReader(_Images):
    """COCO: boxes, and masks or keypoints, of one JSON file."""

    code: ClassVar[str] = "coco:CocoDataset"
    gives: ClassVar[tuple[str, ...]] = _OBJECTS
    paths: ClassVar[tuple[str, ...]] = ("images", "annotations")

    name: Literal["coco"]
    images: str = Field("images", description="Folder of the images, in data.root.")
    annotations: str = Field(description="The JSON file, in data.root.")
    masks: bool = Field(False, description="Read the segmentations too.")
    keypoints: bool = Field(False, description="Read the keypoints too.")

    def fields(self) -> tuple[str, ...]:
        asked = {"masks": self.masks, "keypoints": self.keypoints}
        return (*type(self).gives, *(name for name, is_read in asked.items() if is_read))


class CocoPanopticReader(_Images):
    """COCO's panoptic segmentation: a JSON file and a PNG of segments for each image."""

    code: ClassVar[str] = "coco_panoptic:CocoPanoptic"
    gives: ClassVar[tuple[str, ...]] = (*_OBJECTS, "mask", "masks")
    paths: ClassVar[tuple[str, ...]] = ("images", "segments", "annotations")

    name: Literal["coco_panoptic"]
    images: str = Field("images", description="Folder of the images, in data.root.")
    segments: str = Field(description="Folder of the PNG files, in data.root.")
    annotations: str = Field(description="The JSON file, in data.root.")


class VocReader(_Images):
    """Pascal VOC: an XML file of boxes for each image."""

    code: ClassVar[str] = "voc:VocDataset"
    gives: ClassVar[tuple[str, ...]] = _OBJECTS
    paths: ClassVar[tuple[str, ...]] = ("images", "annotations", "image_set")

    name: Literal["voc"]
    images: str = Field("JPEGImages", description="Folder of the images, in data.root.")
    annotations: str = Field("Annotations", description="Folder of the XML files, in data.root.")
    image_set: str | None = Field(
        None, description="File of names, one a line, such as ImageSets/Main/{split}.txt; null: every XML file."
    )
    classes: _Classes | None = Field(None, description="In the order of the labels; null: those that occur, sorted.")
    one_based: bool = Field(
        False, description="The first pixel is called 1, as in the original sets; otherwise 0, as most tools write."
    )


class YoloReader(_Images):
    """YOLO: a text file of boxes for each image."""

    code: ClassVar[str] = "yolo:YoloDataset"
    gives: ClassVar[tuple[str, ...]] = ("image", "boxes", "labels", "image_id", "size", "placement")
    paths: ClassVar[tuple[str, ...]] = ("images", "labels", "image_set", "classes")

    name: Literal["yolo"]
    images: str = Field("images", description="Folder of the images, in data.root.")
    labels: str | None = Field(
        None, description="Folder of the label files, in data.root; null: the images' with `labels` for `images`."
    )
    image_set: str | None = Field(
        None, description="File with the path of an image a line, such as {split}.txt; null: every image of the folder."
    )
    classes: str | _Classes = Field(
        "data.yaml",
        description="Names in the order of the classes, or the file that has them: `names` of a YAML file, or a name a "
        "line.",
    )


class ImageFolderReader(_Images):
    """Classification: a folder of images for each class."""

    code: ClassVar[str] = "image_folder:ImageFolder"
    gives: ClassVar[tuple[str, ...]] = ("image", "label", "size")
    paths: ClassVar[tuple[str, ...]] = ("images",)

    name: Literal["image_folder"]
    images: str = Field(".", description="Folder of the classes' folders, in data.root.")
    classes: _Classes | None = Field(None, description="In the order of the labels; null: all folders, sorted.")


class SegmentationReader(_Images):
    """Semantic segmentation: images and masks of the same names in two folders."""

    code: ClassVar[str] = "segmentation:SegmentationFolders"
    gives: ClassVar[tuple[str, ...]] = ("image", "mask", "size")
    paths: ClassVar[tuple[str, ...]] = ("images", "masks")

    name: Literal["segmentation"]
    images: str = Field("images", description="Folder of the images, in data.root.")
    masks: str = Field("masks", description="Folder of the masks, in data.root.")
    classes: _Classes | None = Field(
        None, description="Names in the order of the indices; null: the numbers that occur in the masks."
    )
    colours: tuple[_Colour, ...] | None = Field(
        None, description="The colour of each class, for masks in RGB; null: masks hold class indices."
    )
    ignore: tuple[int, ...] = Field((255,), description="Values of mask pixels that don't count.")
    ignore_colours: tuple[_Colour, ...] = Field((), description="Colours of mask pixels that don't count.")
    mask_suffix: str = Field("", description="What a mask's name has after its image's, such as _mask.")


class PairsReader(_Images):
    """Paired images: side by side in one picture, or in two folders under the same names."""

    code: ClassVar[str] = "pairs:PairedImages"
    gives: ClassVar[tuple[str, ...]] = ("image", "target", "size")
    paths: ClassVar[tuple[str, ...]] = ("images", "targets")

    name: Literal["pairs"]
    images: str = Field(".", description="Folder of the images or of pictures of both, in data.root.")
    targets: str | None = Field(
        None, description="Folder of what the images are to become, in data.root; null: side by side."
    )
    direction: Literal["left_to_right", "right_to_left"] = Field(
        "left_to_right", description="From the image to its target; right_to_left also swaps two folders."
    )


class IdxReader(Reading):
    """IDX files of images and labels, as of the MNIST family."""

    code: ClassVar[str] = "idx:idx_images"
    gives: ClassVar[tuple[str, ...]] = ("image", "label")
    paths: ClassVar[tuple[str, ...]] = ("images", "labels")

    name: Literal["idx"]
    images: str = Field(description="The file of the images, in data.root.")
    labels: str = Field(description="The file of the labels, in data.root.")
    classes: _Classes = Field(tuple("0123456789"), description="What the labels 0, 1, … stand for.")


class TableReader(_Images):
    """A table: CSV with column names in its first line, or JSON lines."""

    code: ClassVar[str] = "table:Table"
    paths: ClassVar[tuple[str, ...]] = ("file", "images")

    name: Literal["table"]
    file: str = Field(description="A .csv, .tsv, .jsonl or .ndjson file, in data.root.")
    features: _Classes | None = Field(
        None, description="Columns of numbers; null: all that are named nowhere else, or none with image."
    )
    label: str | None = Field(None, description="Column of the class.")
    labels: tuple[str, ...] = Field((), description="Columns of 0 or 1, each a class that may apply beside others.")
    value: str | None = Field(None, description="Column of the number that is to be predicted.")
    image: str | None = Field(None, description="Column of the image's path.")
    images: str = Field(".", description="Folder of the images, in data.root.")
    classes: _Classes | None = Field(None, description="In the order of the labels; null: those that occur, sorted.")
    split_column: str | None = Field(
        None, description="Column of the split that a row belongs to: train, val, test; null: the file is one split."
    )
    split_value: str | None = Field(
        None, description="With split_column: rows of this value alone; null: each split has its own rows."
    )

    def fields(self) -> tuple[str, ...]:
        asked = {"features": self.features is not None or self.image is None, "label": self.label is not None,
                 "labels_hot": bool(self.labels), "value": self.value is not None,
                 "image": self.image is not None, "size": self.image is not None}  # fmt: skip
        return tuple(name for name, is_read in asked.items() if is_read)


class TextReader(Reading):
    """One text, cut into pieces, to predict the next token."""

    code: ClassVar[str] = "text:TextFile"
    gives: ClassVar[tuple[str, ...]] = ("tokens",)
    paths: ClassVar[tuple[str, ...]] = ("file",)

    name: Literal["text"]
    file: str = Field(description="The text, UTF-8, in data.root.")
    unit: _Unit = Field("characters", description="What a token is.")
    length: int = Field(129, ge=2, description="Tokens of an item; the first is the last of the item before.")
    most_tokens: int | None = Field(None, gt=0, description="Keep the most frequent ones; null: all.")
    fractions_by: Literal["seed", "order"] = Field(
        "order", description="seed: a random choice, the same for the same seed; order: from the end."
    )


class TextClassesReader(Reading):
    """Texts with classes: a file for each class, a text a line."""

    code: ClassVar[str] = "text:TextClasses"
    gives: ClassVar[tuple[str, ...]] = ("tokens", "label")
    paths: ClassVar[tuple[str, ...]] = ("folder",)

    name: Literal["text_classes"]
    folder: str = Field(".", description="Where the files <class>.txt are, in data.root.")
    unit: _Unit = Field("characters", description="What a token is.")
    most_tokens: int | None = Field(None, gt=0, description="Keep the most frequent ones; null: all.")
    classes: _Classes | None = Field(None, description="In the order of the labels; null: all files, sorted.")
