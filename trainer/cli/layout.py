"""What a run's folder of data was detected to be, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def layout_line(config: RunConfig) -> str | None:
    """The folder, its format and the number of items of each split; None where the config names the reader.

    Raises:
        TrainerError: as `trainer.datasets.layouts.detect` does; metrics of validation have no split to be measured on.
    """
    data = config.data
    if data.reader is None or data.reader.name != "auto" or data.root is None:
        return None
    from trainer.datasets.layouts import detect  # takes time to import
    from trainer.datasets.splits import refuse_unmeasured

    layout = detect(data.root, data.reader.form)
    items = {split: f"{split} {part.items} ({layout.format} in {data.root})" for split, part in layout.splits.items()}
    refuse_unmeasured({**items, **{split: f"{split}: taken from train" for split in data.reader.fractions}}, config)
    return f"{data.root}: {layout.line()}"
