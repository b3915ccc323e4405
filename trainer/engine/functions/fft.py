"""Discrete Fourier transforms of the standard's extension, by NumPy (pocketfft): host calls with derivatives.

Each transform is linear, so its derivative is its adjoint: the inverse transform, scaled by the inverse's `norm`.
float32 gives complex64. Inputs are padded with zeros or truncated to the requested lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.functions.axes import how_many, integer_list, one_axis
from trainer.engine.functions.creation import arange
from trainer.engine.functions.elementwise import conj, real
from trainer.engine.functions.movement import concat, roll
from trainer.engine.functions.numpy_calls import numpy_call
from trainer.engine.functions.padding import pad
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import DTypeError, describe, refusal
from trainer.engine.tensor import Tensor, as_tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

_OTHER_WAY = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The complex transform of `n` elements along `axis`, in the shape of x with n along the axis.

    `norm` selects the transform that is divided by n: "forward" this one, "backward" the inverse; "ortho" divides both
    by the square root of n.

    Raises:
        TrainerError: x is neither float32, float64 nor complex, the axis or the norm does not exist, or `n` is below 1.
    """
    return _along(x, "fft", n, axis, norm)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`, of the same shape and dtype.

    Raises:
        TrainerError: see `fft`.
    """
    return _along(x, "ifft", n, axis, norm)


def fftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`fft` along each of `axes` (default: the last ones if only the lengths `s` are given, else all).

    The result has the complex dtype of `fft`, and x's shape except for the given lengths.

    Raises:
        TrainerError: axes and lengths don't pair up, otherwise see `fft`.
    """
    for axis, extent in _pairs("fftn", x, s, axes):
        x = fft(x, n=extent, axis=axis, norm=norm)
    return _complex("fftn", x)


def ifftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `fftn`, of the same shape and dtype.

    Raises:
        TrainerError: see `fftn`.
    """
    for axis, extent in _pairs("ifftn", x, s, axes):
        x = ifft(x, n=extent, axis=axis, norm=norm)
    return _complex("ifftn", x)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 elements of the `fft` of real x, which determine the others.

    float32 gives complex64, float64 complex128; the axis has n // 2 + 1 elements.

    Raises:
        TrainerError: x is neither float32 nor float64, otherwise see `fft`.
    """
    tensor, number = _sized("rfft", x, n, axis)
    if not tensor.dtype.is_float:
        raise refusal("rfft", "takes real numbers", found=describe([tensor]), expected="float32 or float64")
    return _half("rfft", tensor, number, norm)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: `n` real numbers (default: 2 (m - 1) for m elements).

    complex64 gives float32, complex128 float64; the axis has `n` elements.

    Raises:
        TrainerError: see `fft`.
    """
    tensor = _complex("irfft", x)
    number = one_axis("irfft", axis, tensor.ndim)
    extent = 2 * (tensor.shape[number] - 1) if n is None else n
    if extent < 1:
        raise refusal("irfft", "of no elements", found=f"n={extent}", expected="at least 1")
    return _whole(_resized(tensor, number, extent // 2 + 1), number, extent, _checked(norm))


def rfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`rfft` along the last of `axes`, then `fft` along the others. The result is complex, with the dtypes of `rfft`.

    Raises:
        TrainerError: axes and lengths don't pair up, otherwise see `rfft`.
    """
    *others, (axis, extent) = _pairs("rfftn", x, s, axes)
    x = rfft(x, n=extent, axis=axis, norm=norm)
    for axis, extent in others:
        x = fft(x, n=extent, axis=axis, norm=norm)
    return x


def irfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfftn`; the last axis has 2 (m - 1) elements for m input elements unless `s` is given.

    The result is real, with the dtypes of `irfft`.

    Raises:
        TrainerError: axes and lengths don't pair up, otherwise see `irfft`.
    """
    *others, (last, extent) = _pairs("irfftn", x, s, axes)
    for axis, length in others:
        x = ifft(x, n=length, axis=axis, norm=norm)
    return irfft(x, n=None if s is None else extent, axis=last, norm=norm)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The `fft` of a Hermitian signal with first half x: `n` real numbers (default: 2 (m - 1) for m elements).

    The transform is along `axis`; complex64 gives float32, complex128 float64.

    Raises:
        TrainerError: see `fft`.
    """
    return irfft(conj(_complex("hfft", x)), n=n, axis=axis, norm=_OTHER_WAY[_checked(norm)])


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`. The axis has n // 2 + 1 elements; float32 gives complex64, float64 complex128.

    Raises:
        TrainerError: see `rfft`.
    """
    return conj(rfft(x, n=n, axis=axis, norm=_OTHER_WAY[_checked(norm)]))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequencies of the elements of `fft`, in cycles per unit of the spacing `d`; the shape is [n].

    float32 unless `dtype` is given.

    Raises:
        TrainerError: `n` is negative or not an integer.
    """
    half = (how_many("fftfreq", "`n`", n) + 1) // 2
    numbers = concat([arange(0, half, dtype=dtypes.float64), arange(-(n // 2), 0, dtype=dtypes.float64)])
    return (numbers / (n * d)).astype(dtype or dtypes.float32)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequencies of the elements of `rfft`; the shape is [n // 2 + 1]. float32 unless `dtype` is given.

    Raises:
        TrainerError: `n` is negative or not an integer.
    """
    numbers = arange(0, how_many("rfftfreq", "`n`", n) // 2 + 1, dtype=dtypes.float64)
    return (numbers / (n * d)).astype(dtype or dtypes.float32)


def fftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Moves the element of frequency zero to the middle along `axes` (None: all).

    The result has x's shape and dtype, which may be any.

    Raises:
        TrainerError: the axis is out of range.
    """
    tensor, numbers = _shifted(x, axes)
    return roll(tensor, [tensor.shape[axis] // 2 for axis in numbers], axis=numbers) if numbers else tensor


def ifftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`. The result has x's shape and dtype, which may be any.

    Raises:
        TrainerError: the axis is out of range.
    """
    tensor, numbers = _shifted(x, axes)
    return roll(tensor, [-(tensor.shape[axis] // 2) for axis in numbers], axis=numbers) if numbers else tensor


# --- shared helpers --------------------------------------------------------------------------------------------------


def _shifted(x: Any, axes: int | Sequence[int] | None) -> tuple[Tensor, list[int]]:
    tensor = as_tensor(x)
    given = range(tensor.ndim) if axes is None else integer_list("fftshift", axes)
    return tensor, [one_axis("fftshift", axis, tensor.ndim) for axis in given]


def _checked(norm: str) -> str:
    if norm not in _OTHER_WAY:
        raise refusal("fft", "no such norm", found=repr(norm), expected=", ".join(map(repr, _OTHER_WAY)))
    return norm


def _complex(name: str, x: Any) -> Tensor:
    tensor = as_tensor(x, operation=name)
    if not tensor.dtype.is_inexact or tensor.dtype.is_half:
        expected = "float32, float64 or a complex dtype"
        raise refusal(
            name, f"does not take {tensor.dtype}", found=describe([tensor]), expected=expected, kind=DTypeError
        )
    return tensor.astype(tensor.dtype.with_imaginary)


def _resized(tensor: Tensor, axis: int, extent: int) -> Tensor:
    """Truncates x, or pads it with zeros, to `extent` along `axis`."""
    if tensor.shape[axis] > extent:
        return tensor[(slice(None),) * axis + (slice(extent),)]
    if tensor.shape[axis] == extent:
        return tensor
    return pad(tensor, [(0, extent - tensor.shape[axis] if each == axis else 0) for each in range(tensor.ndim)])


def _sized(name: str, x: Any, n: int | None, axis: int) -> tuple[Tensor, int]:
    tensor = as_tensor(x, operation=name)
    _complex(name, tensor)
    number = one_axis(name, axis, tensor.ndim)
    extent = tensor.shape[number] if n is None else n
    if extent < 1:
        raise refusal(name, "of no elements", found=f"n={extent}", expected="at least 1")
    return _resized(tensor, number, extent), number


def _pairs(name: str, x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int, int | None]]:
    """Returns the axes and their lengths (None: unchanged)."""
    ndim = as_tensor(x, operation=name).ndim
    if axes is None:
        axes = range(ndim) if s is None else range(-len(s), 0)
    numbers = [one_axis(name, axis, ndim) for axis in axes]
    lengths = [None] * len(numbers) if s is None else integer_list(name, tuple(s))
    if len(numbers) != len(lengths) or not numbers:
        raise refusal(name, "axes and lengths don't pair up", found=f"axes {list(axes)}, s {s}")
    return list(zip(numbers, lengths, strict=True))


def _along(x: Any, name: str, n: int | None, axis: int, norm: str) -> Tensor:
    tensor, number = _sized(name, x, n, axis)
    return _transformed(name, _complex(name, tensor), number, _checked(norm))


def _transformed(name: str, tensor: Tensor, axis: int, norm: str) -> Tensor:
    """`fft` or `ifft`: each is the other's adjoint up to the scale."""

    def gradient(inputs: Sequence[Tensor], outputs: Sequence[Tensor], cotangents: Sequence[Any]) -> list[Tensor]:
        return [_transformed("ifft" if name == "fft" else "fft", cotangents[0], axis, _OTHER_WAY[norm])]

    results = [(tensor.shape, tensor.dtype)]
    return numpy_call(f"fft.{name}", [tensor], results, gradient, axis=axis, norm=norm)[0]


def _half(name: str, tensor: Tensor, axis: int, norm: str) -> Tensor:
    """`rfft` of real numbers."""
    extent = tensor.shape[axis]

    def gradient(inputs: Sequence[Tensor], outputs: Sequence[Tensor], cotangents: Sequence[Any]) -> list[Tensor]:
        return [real(_transformed("ifft", _resized(cotangents[0], axis, extent), axis, _OTHER_WAY[norm]))]

    shape = (*tensor.shape[:axis], extent // 2 + 1, *tensor.shape[axis + 1 :])
    results = [(shape, tensor.dtype.with_imaginary)]
    return numpy_call("fft.rfft", [tensor], results, gradient, axis=axis, norm=norm)[0]


def _whole(tensor: Tensor, axis: int, extent: int, norm: str) -> Tensor:
    """`irfft`; its adjoint doubles the elements that also represent their mirror image."""

    def gradient(inputs: Sequence[Tensor], outputs: Sequence[Tensor], cotangents: Sequence[Any]) -> list[Tensor]:
        half = _half("rfft", cotangents[0], axis, _OTHER_WAY[norm])
        number = arange(extent // 2 + 1, dtype=dtypes.int64)
        is_alone = (number == 0) | (number * 2 == extent)
        weight = 2.0 - is_alone.astype(half.dtype.part)
        return [half * weight.reshape([-1 if each == axis else 1 for each in range(half.ndim)])]

    shape = (*tensor.shape[:axis], extent, *tensor.shape[axis + 1 :])
    return numpy_call("fft.irfft", [tensor], [(shape, tensor.dtype.part)], gradient, n=extent, axis=axis, norm=norm)[0]
