"""Blur, noise and holes in the image."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item, form
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.pictures import image_of, resampled
from trainer.datasets.transforms.transform import Transform

Range = tuple[float, float]


@dataclass
class GaussianBlur(Transform):
    """`image` blurred with a standard deviation in pixels drawn from `sigma`; three box filters, as Pillow does it."""

    sigma: Range = (0.1, 2.0)

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        from PIL import ImageFilter

        image = image_of(item)
        if image.dtype != np.uint8:
            raise TrainerError(
                "gaussian_blur blurs bytes", found=form(image), expected="uint8", hint="Put it before normalize."
            )
        blur = ImageFilter.GaussianBlur(draws.uniform(*self.sigma))
        return {**item, "image": resampled(image, lambda picture: picture.filter(blur), is_image=True)}


@dataclass
class GaussianNoise(Transform):
    """Noise added to every number of `image`, of a standard deviation drawn from `sigma`, as a share of white."""

    sigma: Range = (0.0, 0.05)

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        image, sigma = image_of(item), draws.uniform(*self.sigma)
        generator = draws.generator()
        if image.dtype != np.uint8:
            noise = generator.standard_normal(image.shape, np.float32)
            return {**item, "image": image + np.float32(sigma) * noise}
        steps = np.rint(255 * sigma * _normal_quantiles()).astype(np.int16)
        which = generator.bit_generator.random_raw(-(-image.size // 4)).view(np.uint16)[: image.size] >> 4
        noisy = np.take(steps, which).reshape(image.shape)
        noisy += image
        return {**item, "image": np.clip(noisy, 0, 255).astype(np.uint8)}


@dataclass
class Cutout(Transform):
    """Rectangles of `image` in one colour (DeVries and Taylor 2017; random erasing, Zhong et al. 2020).

    Args:
        count: how many.
        scale: least and largest share of the picture's area, of each.
        ratio: least and largest width over height; its logarithm is uniform.
        fill: the colour, 0 to 255.
    """

    minds_scale: ClassVar[bool] = False

    count: int = 1
    scale: Range = (0.02, 0.33)
    ratio: Range = (0.3, 3.3)
    fill: int = 0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        image = image_of(item).copy()
        height, width = image.shape[:2]
        for _ in range(self.count):
            area, ratio = height * width * draws.uniform(*self.scale), draws.log_uniform(*self.ratio)
            high, wide = min(height, round(math.sqrt(area / ratio))), min(width, round(math.sqrt(area * ratio)))
            top, left = draws.integer(height - high + 1), draws.integer(width - wide + 1)
            image[top : top + high, left : left + wide] = self.fill if image.dtype == np.uint8 else self.fill / 255
        return {**item, "image": image}


@functools.cache
def _normal_quantiles() -> np.ndarray:
    """The middles of 4096 equally likely parts of the normal distribution, scaled to a variance of 1.

    Looked up by random bits: 0.4 ms for 224 x 224 in colour, where drawing floats takes 1.7 ms. Bytes can't tell.
    """
    from statistics import NormalDist  # 10 ms to import, in every worker

    half = np.array([NormalDist().inv_cdf((place + 0.5) / 4096) for place in range(2048)])
    quantiles = np.concatenate([half, -half[::-1]])
    return quantiles / quantiles.std()
