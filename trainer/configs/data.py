"""`data:` where samples come from and how they are batched."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from trainer.configs.readers import ReaderConfig
from trainer.configs.sampler import SamplerConfig
from trainer.configs.section import Section
from trainer.configs.transforms import TransformsConfig

_Extent = Annotated[int, Field(gt=0, le=65_536)]
_Size = tuple[_Extent, _Extent]


class DataConfig(Section):
    """Reading, shuffling and batching."""

    root: Path | None = Field(
        None,
        description="Folder of the data set, relative to the file that says so; null: the data that the task carries.",
    )
    reader: ReaderConfig | None = Field(None, description="The data's format; null: the task reads it.")
    transforms: TransformsConfig = Field(default_factory=TransformsConfig)
    batch_size: int = Field(64, gt=0, le=1_000_000, description="Samples in one training step.")
    valid_batch_size: int | None = Field(
        None, gt=0, le=1_000_000, description="Samples in one validation step; null: the same as batch_size."
    )
    shuffle: bool = Field(True, description="A new order each epoch, decided by the seed and the epoch alone.")
    sampler: SamplerConfig | None = Field(
        None, description="Which items an epoch of training has; null: every item once."
    )
    size_window: int | None = Field(
        None,
        gt=0,
        description="Training items are sorted by size within so many batches, so that those of a batch are alike and "
        "little is filled up; null: they are not.",
    )
    max_objects: int | None = Field(
        None,
        gt=0,
        le=1_000_000,
        description="Room for boxes in each item of a batch; null: the maximum of the data set, rounded up to a "
        "multiple of 8. Batches of mixed items, or of a data set that does not know its maximum, take the next power "
        "of two.",
    )
    max_tokens: int | None = Field(
        None,
        gt=0,
        le=10_000_000,
        description="Room for tokens in each item of a batch; null: the next power of two that the batch needs.",
    )
    image_sizes: tuple[_Size, ...] = Field(
        (),
        description="Height and width of batches whose images differ in size, [[480, 640], [640, 480]]: they are "
        "filled up to the first that has room; empty: images of a batch have one size.",
    )
    workers: int | None = Field(
        None,
        ge=0,
        le=256,
        description="Who prepares batches ahead: so many threads or processes; 0: the training loop, one by one; "
        "null: a thread for data in memory, else as many as there are processors but one, from 1 to 8.",
    )
    worker_kind: Literal["auto", "thread", "process"] = Field(
        "auto", description="auto: threads for data in memory, else processes."
    )
    prefetch: int = Field(
        2,
        gt=0,
        le=1000,
        description="Batches that each worker prepares ahead; fewer where they would take more than a quarter of the "
        "free memory.",
    )
    cache_gb: float = Field(
        0.0, ge=0, description="Memory in GB for decoded items, which are then not read again; all workers share it."
    )
    scaled_decoding: bool = Field(
        True, description="Decode JPEG files at a half, a quarter or an eighth where the transforms need no more."
    )
    on_error: Literal["raise", "skip"] = Field("raise", description="What an unreadable sample does to the run.")
