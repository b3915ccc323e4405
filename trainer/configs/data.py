"""`data:` where samples come from and how they are batched."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from trainer.configs.readers import ReaderConfig
from trainer.configs.section import Section


class DataConfig(Section):
    """Reading, shuffling and batching."""

    root: Path | None = Field(
        None,
        description="Folder of the data set, relative to the file that says so; null: the data that the task carries.",
    )
    reader: ReaderConfig | None = Field(None, description="The data's format; null: the task reads it.")
    batch_size: int = Field(64, gt=0, description="Samples in one training step.")
    valid_batch_size: int | None = Field(
        None, gt=0, description="Samples in one validation step; null: the same as batch_size."
    )
    shuffle: bool = Field(True, description="A new order each epoch, decided by the seed and the epoch alone.")
    workers: int = Field(0, ge=0, description="Threads that prepare batches ahead; 0: in the training loop.")
    on_error: Literal["raise", "skip"] = Field("raise", description="What an unreadable sample does to the run.")
