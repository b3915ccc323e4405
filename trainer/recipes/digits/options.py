"""What can be set under `options:` of the digits recipe."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Section


class Options(Section):
    """Options of the task."""

    images: str = Field("t10k-images-idx3-ubyte.gz", description="IDX file of the images [N, H, W], in data.root.")
    labels: str = Field("t10k-labels-idx1-ubyte.gz", description="IDX file of the labels [N], in data.root.")
    class_names: tuple[str, ...] = Field(
        tuple("0123456789"), min_length=2, description="What the labels 0, 1, … stand for."
    )
    valid_images: int = Field(500, gt=0, description="Size of the validation split, before the test split.")
    test_images: int = Field(1500, gt=0, description="Size of the test split, at the end of the files.")
    shift: int = Field(2, ge=0, le=256, description="Maximum shift of training images in pixels, in every direction.")
    dropout: float = Field(0.3, ge=0, lt=1, description="Share of features left out in training.")
