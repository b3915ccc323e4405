"""`data.transforms:` by split."""

from pydantic import Field

from trainer.configs.section import Section
from trainer.configs.transforms.table import TransformConfig


class TransformsConfig(Section):
    """What happens to items on their way, in this order; null: what the task does by itself."""

    train: tuple[TransformConfig, ...] | None = Field(None, description="To those of the training split.")
    valid: tuple[TransformConfig, ...] | None = Field(None, description="To those of the validation split.")
    test: tuple[TransformConfig, ...] | None = Field(None, description="To those of test splits; null: as for valid.")

    def of(self, split: str) -> tuple[TransformConfig, ...] | None:
        """The transforms of a split: "train", "valid", or any test split."""
        if split == "train":
            return self.train
        return self.valid if split == "valid" or self.test is None else self.test
