"""`data.transforms:` by split."""

from pydantic import Field

from trainer.configs.section import Section
from trainer.configs.transforms.table import TransformConfig


class TransformsConfig(Section):
    """Transforms of each split, applied in this order; null: the task's own."""

    train: tuple[TransformConfig, ...] | None = Field(
        None, description="Transforms of the training split, in order; null: the task's own."
    )
    valid: tuple[TransformConfig, ...] | None = Field(
        None, description="Transforms of the validation split, in order; null: the task's own."
    )
    test: tuple[TransformConfig, ...] | None = Field(
        None, description="Transforms of test splits, in order; null: the same as valid."
    )

    def of(self, split: str) -> tuple[TransformConfig, ...] | None:
        """The transforms of a split: "train", "valid", or any test split."""
        if split == "train":
            return self.train
        return self.valid if split == "valid" or self.test is None else self.test
