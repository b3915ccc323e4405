"""Tensor functions: activations, composed so that they fuse with adjacent operations, resampling and sampling."""

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
    """max(x, 0), as where(x <= 0, 0, x): its derivative at 0 is 0, and NaN stays NaN (x > 0 would make it 0).

    Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.where(x <= 0, 0, x)


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6); the derivative at 0 and 6 is 0. Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.where(x >= 6, 6, relu(x))


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, weight·x elsewhere; weight [1], or [C] for x [N, C, ...].

    Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: weight has another shape, or dtypes are incompatible.
    """
    if weight.ndim != 1 or weight.shape[0] not in (1, *x.shape[1:2]):
        raise TrainerError("prelu: wrong number of slopes", found=f"weight {list(weight.shape)}",
                           expected=f"[1] or [C] of x {list(x.shape)}")  # fmt: skip
    slopes = weight if x.ndim < 2 else functions.reshape(weight, (-1, *(1,) * (x.ndim - 2)))
    return functions.where(x > 0, x, x * slopes.astype(x.dtype))


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, `negative_slope`·x elsewhere. Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.where(x > 0, x, x * negative_slope)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, `alpha`·(exp(x) − 1) elsewhere. Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.where(x > 0, x, functions.expm1(functions.where(x > 0, 0, x)) * alpha)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x·Φ(x) (Hendrycks & Gimpel 2016); `approximate="tanh"` gives the tanh form.

    Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    if approximate == "tanh":
        return x * 0.5 * (1 + functions.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return x * 0.5 * (1 + functions.erf(x * math.sqrt(0.5)))


def silu(x: Tensor) -> Tensor:
    """x·sigmoid(x), also called swish. Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return x * sigmoid(x)


def mish(x: Tensor) -> Tensor:
    """x·tanh(softplus(x)) (Misra 2019). Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return x * functions.tanh(softplus(x))


def hardsigmoid(x: Tensor) -> Tensor:
    """relu6(x + 3) / 6. Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return relu6(x + 3) / 6


def hardswish(x: Tensor) -> Tensor:
    """x·relu6(x + 3) / 6 (Howard et al. 2019). Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return x * hardsigmoid(x)


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent. Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.tanh(x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(−x)). Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return functions.logistic(x)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), as max(x, 0) + log1p(exp(−|x|)). Keeps x's shape and floating-point dtype.

    Raises:
        TrainerError: `x` is not floating-point.
    """
    return relu(x) + functions.log1p(functions.exp(-functions.abs(x)))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`; the maximum is subtracted first.

    Keeps x's shape and floating-point dtype; under autocast, 16-bit inputs give float32.

    Raises:
        TrainerError: `axis` is out of range, or `x` is not floating-point.
    """
    x = widened(x)
    exponentials = functions.exp(x - largest(x, axis))
    return exponentials / functions.sum(exponentials, axis=axis, keepdims=True)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(softmax(x)) along `axis`, without forming the quotient.

    Keeps x's shape and floating-point dtype; under autocast, 16-bit inputs give float32.

    Raises:
        TrainerError: `axis` is out of range, or `x` is not floating-point.
    """
    x = widened(x)
    shifted = x - largest(x, axis)
    return shifted - functions.log(functions.sum(functions.exp(shifted), axis=axis, keepdims=True))


def largest(x: Tensor, axis: int) -> Tensor:
    """Returns the maximum along `axis` (kept with extent 1) as a constant: it cancels out, so it needs no gradient.

    Keeps x's dtype.

    Raises:
        TrainerError: `axis` is out of range, or there are no elements.
    """
    return functions.stop_gradient(functions.max(x, axis=axis, keepdims=True))
