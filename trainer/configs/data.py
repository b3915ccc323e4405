"""`data:` where items come from and how they are batched."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainer import TrainerError
from trainer.configs.readers import ReaderConfig
from trainer.configs.sampler import SamplerConfig
from trainer.configs.section import Section
from trainer.configs.transforms import TransformsConfig

_Extent = Annotated[int, Field(gt=0, le=65_536)]
_Size = tuple[_Extent, _Extent]
_Length = Annotated[int, Field(gt=0, le=10_000_000)]
_LengthSteps = Annotated[int, Field(gt=0, le=64)] | Annotated[tuple[_Length, ...], Field(min_length=1)]


class DataConfig(Section):
    """Settings for reading, shuffling, transforming and batching data."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("max_tokens", "length_steps"),)

    root: Path | None = Field(
        None,
        description="Folder of the data set, relative to the YAML file that sets it; null: the task creates its own "
        "data.",
    )
    reader: ReaderConfig | None = Field(
        None, description="Format of the data set; null: the task reads the data itself."
    )
    transforms: TransformsConfig = Field(default_factory=TransformsConfig)
    batch_size: Annotated[int, Field(gt=0, le=1_000_000)] | Literal["auto"] = Field(
        64,
        description="Number of items in each training batch. auto: the largest power of two with which a run's "
        "measured peak memory stays under 60 % of the memory; it is measured before the run starts, and the number "
        "is written into the resolved config.",
    )
    valid_batch_size: int | None = Field(
        None, gt=0, le=1_000_000, description="Number of items in each validation batch; null: the same as batch_size."
    )
    shuffle: bool = Field(
        True, description="Shuffle the training items in every epoch. The order depends only on the seed and the epoch."
    )
    sampler: SamplerConfig | None = Field(
        None, description="Which items each training epoch contains; null: every item once."
    )
    size_window: int | None = Field(
        None,
        gt=0,
        description="Sort training items by size within windows of this many batches, so that batches need less "
        "padding; null: no sorting.",
    )
    max_objects: int | None = Field(
        None,
        gt=0,
        le=1_000_000,
        description="Maximum number of boxes per image; shorter lists are padded. null: the maximum of the data set, "
        "rounded up to a multiple of 8, or the next power of two in each batch if items are mixed or the maximum is "
        "unknown.",
    )
    max_tokens: int | None = Field(
        None,
        gt=0,
        le=10_000_000,
        description="Maximum number of tokens per item; shorter sequences are padded to it. null: batches are padded "
        "to `length_steps`.",
    )
    length_steps: _LengthSteps | None = Field(
        None,
        description="Token lengths to which batches of texts are padded, or how many of them to choose so that the "
        "padding is smallest. A step is compiled once per length. null: five if the reader knows the lengths of all "
        "items, otherwise powers of two.",
    )
    image_sizes: tuple[_Size, ...] = Field(
        (),
        description="Allowed heights and widths of batches in pixels, such as [[480, 640], [640, 480]], for images "
        "of different sizes. Images are padded to the first size that fits. Empty: all images of a batch must have "
        "one size.",
    )
    workers: int | None = Field(
        None,
        ge=0,
        le=256,
        description="Number of data-loading workers (threads or processes); 0: the training loop loads batches "
        "itself; null: one thread for data in memory, otherwise one fewer than there are logical processors, from 1 "
        "to 8.",
    )
    worker_kind: Literal["auto", "thread", "process"] = Field(
        "auto",
        description="Whether data-loading workers are threads or processes; auto: threads for data in memory, "
        "otherwise processes.",
    )
    prefetch: int = Field(
        2,
        gt=0,
        le=1000,
        description="Number of batches that each worker loads in advance; reduced if they would take more than a "
        "quarter of the free memory.",
    )
    cache_gb: float = Field(
        0.0,
        ge=0,
        description="Memory for decoded items in GB, shared by all workers, so that later epochs don't decode "
        "them again; 0: no cache.",
    )
    scaled_decoding: bool = Field(
        True,
        description="Decode JPEG files at 1/2, 1/4 or 1/8 of their size if the transforms reduce them at least "
        "that much; faster.",
    )
    on_error: Literal["raise", "skip"] = Field(
        "raise",
        description="What happens at an unreadable item. raise: the run ends with an error; skip: the item is left "
        "out and listed.",
    )

    @property
    def items_per_batch(self) -> int:
        """Number of items in each training batch.

        Raises:
            TrainerError: the batch size is `auto` and has not been measured.
        """
        if self.batch_size == "auto":
            raise TrainerError(
                "the batch size has not been measured",
                found="data.batch_size: auto",
                expected="a number here",
                hint="Set data.batch_size to a number; `trainer run` measures it before training.",
            )
        return self.batch_size
