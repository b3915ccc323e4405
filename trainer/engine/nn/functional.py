"""Activations, composed so that they fuse with their neighbors, resampling and sampling, as functions of tensors."""

from __future__ import annotations

import math

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.autocast import widened
from trainer.engine.nn.dot_product_attention import scaled_dot_product_attention
from trainer.engine.nn.positions import rotary_embedding
from trainer.engine.nn.resampling import interpolate, pixel_shuffle, pixel_unshuffle
from trainer.engine.nn.sampling import affine_grid, deform_conv2d, grid_sample, roi_align, warp_perspective
from trainer.engine.tensor import Tensor

__all__ = [
    "affine_grid", "deform_conv2d", "elu", "gelu", "grid_sample", "hardsigmoid", "hardswish", "interpolate", "largest",
    "leaky_relu", "log_softmax", "mish", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu", "relu6", "roi_align",
    "rotary_embedding", "scaled_dot_product_attention", "sigmoid", "silu", "softmax", "softplus", "tanh",
    "warp_perspective",
]  # fmt: skip


def relu(x: Tensor) -> Tensor:
    """max(x, 0), as where(x <= 0, 0, x): its derivative at 0 is 0, and NaN stays NaN (x > 0 would hide it).

    Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.where(x <= 0, 0, x)


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6); the derivative at 0 and 6 is 0. Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.where(x >= 6, 6, relu(x))


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where positive, weight·x elsewhere; weight [1], or [C] for x [N, C, ...].

    Of x's shape and floating-point dtype.

    Raises:
        TrainerError: weight has another shape, or dtypes don't meet.
    """
    if weight.ndim != 1 or weight.shape[0] not in (1, *x.shape[1:2]):
        raise TrainerError("prelu: wrong number of slopes", found=f"weight {list(weight.shape)}",
                           expected=f"[1] or [C] of x {list(x.shape)}")  # fmt: skip
    slopes = weight if x.ndim < 2 else functions.reshape(weight, (-1, *(1,) * (x.ndim - 2)))
    return functions.where(x > 0, x, x * slopes.astype(x.dtype))


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where positive, `negative_slope`·x elsewhere. Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.where(x > 0, x, x * negative_slope)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, `alpha`·(exp(x) − 1) elsewhere. Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.where(x > 0, x, functions.expm1(functions.where(x > 0, 0, x)) * alpha)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x·Φ(x) (Hendrycks & Gimpel 2016); `approximate="tanh"` gives the tanh form.

    Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    if approximate == "tanh":
        return x * 0.5 * (1 + functions.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return x * 0.5 * (1 + functions.erf(x * math.sqrt(0.5)))


def silu(x: Tensor) -> Tensor:
    """x·sigmoid(x), also called swish. Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return x * sigmoid(x)


def mish(x: Tensor) -> Tensor:
    """x·tanh(softplus(x)) (Misra 2019). Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return x * functions.tanh(softplus(x))


def hardsigmoid(x: Tensor) -> Tensor:
    """relu6(x + 3) / 6. Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return relu6(x + 3) / 6


def hardswish(x: Tensor) -> Tensor:
    """x·relu6(x + 3) / 6 (Howard et al. 2019). Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return x * hardsigmoid(x)


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent. Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.tanh(x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(−x)). Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.logistic(x)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), as max(x, 0) + log1p(exp(−|x|)). Of x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return relu(x) + functions.log1p(functions.exp(-functions.abs(x)))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`; the maximum is subtracted first.

    Of x's shape and floating-point dtype. Under autocast float32.

    Raises:
        TrainerError: there is no such axis, or `x` is not floating-point.
    """
    x = widened(x)
    exponentials = functions.exp(x - largest(x, axis))
    return exponentials / functions.sum(exponentials, axis=axis, keepdims=True)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(softmax(x)) along `axis`, without forming the quotient.

    Of x's shape and floating-point dtype. Under autocast float32.

    Raises:
        TrainerError: there is no such axis, or `x` is not floating-point.
    """
    x = widened(x)
    shifted = x - largest(x, axis)
    return shifted - functions.log(functions.sum(functions.exp(shifted), axis=axis, keepdims=True))


def largest(x: Tensor, axis: int) -> Tensor:
    """The maximum along `axis` (kept with extent 1) as a constant: it cancels out, so it needs no gradient.

    Of x's dtype.

    Raises:
        TrainerError: there is no such axis, or there are no elements.
    """
    return functions.stop_gradient(functions.max(x, axis=axis, keepdims=True))
