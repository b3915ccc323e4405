"""Metrics of predicted numbers and images, and of gradients."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import OF_NUMBERS, MetricConfig


class MeanAbsoluteErrorConfig(MetricConfig):
    """Mean absolute error: the mean of |predicted - target| over all values."""

    code: ClassVar[str] = "errors:MeanAbsoluteError"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["mean_absolute_error"]


class MeanSquaredErrorConfig(MetricConfig):
    """Mean squared error: the mean of (predicted - target)² over all values."""

    code: ClassVar[str] = "errors:MeanSquaredError"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["mean_squared_error"]


class RootMeanSquaredErrorConfig(MetricConfig):
    """Root mean squared error: the square root of the mean squared error over the whole split."""

    code: ClassVar[str] = "errors:RootMeanSquaredError"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["root_mean_squared_error"]


class GradientNormConfig(MetricConfig):
    """L2 norm of all gradients of a step before clipping, averaged over steps. For the train split only."""

    code: ClassVar[str] = "gradients:GradientNorm"
    needs: ClassVar[tuple[str, ...]] = ("gradient_norm",)

    name: Literal["gradient_norm"]


class OfImages(MetricConfig):
    """Base of the image metrics."""

    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    data_range: float = Field(
        1.0,
        gt=0,
        description="Data range: maximum minus minimum possible pixel value. 1 for values from 0 to 1, 2 for -1 "
        "to 1, 255 for bytes.",
    )


class PsnrConfig(OfImages):
    """Peak signal-to-noise ratio in dB, averaged over images."""

    code: ClassVar[str] = "images:Psnr"

    name: Literal["psnr"]


class SsimConfig(OfImages):
    """Structural similarity (SSIM) with a Gaussian window (Wang et al. 2004), averaged over images."""

    code: ClassVar[str] = "images:Ssim"

    name: Literal["ssim"]
