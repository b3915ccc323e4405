"""Metrics of predicted numbers and images, and of gradients."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import OF_NUMBERS, MetricConfig


class MeanAbsoluteErrorConfig(MetricConfig):
    """The mean of |predicted - target| over all values."""

    code: ClassVar[str] = "errors:MeanAbsoluteError"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["mean_absolute_error"]


class MeanSquaredErrorConfig(MetricConfig):
    """The mean of (predicted - target)² over all values."""

    code: ClassVar[str] = "errors:MeanSquaredError"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["mean_squared_error"]


class RootMeanSquaredErrorConfig(MetricConfig):
    """The square root of the mean squared error of the whole period."""

    code: ClassVar[str] = "errors:RootMeanSquaredError"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["root_mean_squared_error"]


class GradientNormConfig(MetricConfig):
    """The L2 norm of all gradients of a step before clipping, a mean over steps; of the training alone."""

    code: ClassVar[str] = "gradients:GradientNorm"
    needs: ClassVar[tuple[str, ...]] = ("gradient_norm",)

    name: Literal["gradient_norm"]


class OfImages(MetricConfig):
    """What metrics of images have."""

    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    data_range: float = Field(
        1.0, gt=0, description="The greatest value of a pixel less the least: 1 of 0 to 1, 2 of -1 to 1, 255 of bytes."
    )


class PsnrConfig(OfImages):
    """The peak signal-to-noise ratio in dB, a mean over images."""

    code: ClassVar[str] = "images:Psnr"

    name: Literal["psnr"]


class SsimConfig(OfImages):
    """Structural similarity with a Gaussian window (Wang et al. 2004), a mean over images."""

    code: ClassVar[str] = "images:Ssim"

    name: Literal["ssim"]
