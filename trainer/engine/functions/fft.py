"""Discrete Fourier transforms of the standard's extension, by NumPy (pocketfft): host calls with derivatives.

Each is linear, so its derivative is its adjoint: the inverse transform, with the scale of the inverse's `norm`.
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
    """The transform along `axis` of `n` elements: complex, of the shape of x with n along the axis.

    `norm` selects the transform that is divided by n: "forward" this one, "backward" the inverse; "ortho" divides both
    by the square root of n.

    Raises:
        TrainerError: x is neither float32, float64 nor complex, there is no such axis or norm, or `n` is below 1.
    """
    return _along(x, "fft", n, axis, norm)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`, of the same shape and dtype.

    Raises:
        TrainerError: as `fft`.
    """
    return _along(x, "ifft", n, axis, norm)


def fftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`fft` along each of `axes` (default: the last ones if only the lengths `s` are given, else all).

    Of the complex dtype that `fft` gives, and of x's shape but for the given lengths.

    Raises:
        TrainerError: axes and lengths don't pair up, else as `fft`.
    """
    for axis, extent in _pairs("fftn", x, s, axes):
        x = fft(x, n=extent, axis=axis, norm=norm)
    return _complex("fftn", x)


def ifftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `fftn`, of the same shape and dtype.

    Raises:
        TrainerError: as `fftn`.
    """
    for axis, extent in _pairs("ifftn", x, s, axes):
        x = ifft(x, n=extent, axis=axis, norm=norm)
    return _complex("ifftn", x)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 elements of the `fft` of real x, which determine the others.

    float32 gives complex64, float64 complex128; the axis has n // 2 + 1 elements.

    Raises:
        TrainerError: x is neither float32 nor float64, else as `fft`.
    """
    tensor, number = _sized("rfft", x, n, axis)
    if not tensor.dtype.is_float:
        raise refusal("rfft", "takes real numbers", found=describe([tensor]), expected="float32 or float64")
    return _half("rfft", tensor, number, norm)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: `n` real numbers (default: 2 (m - 1) for m elements).

    complex64 gives float32, complex128 float64; the axis has `n` elements.

    Raises:
        TrainerError: as `fft`.
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
    """`rfft` along the last of `axes`, then `fft` along the others. Complex; dtypes as of `rfft`.

    Raises:
        TrainerError: axes and lengths don't pair up, else as `rfft`.
    """
    *others, (axis, extent) = _pairs("rfftn", x, s, axes)
    x = rfft(x, n=extent, axis=axis, norm=norm)
    for axis, extent in others:
        x = fft(x, n=extent, axis=axis, norm=norm)
    return x


def irfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfftn`; the last axis has 2 (m - 1) elements for m input elements unless `s` says otherwise.

    Real; dtypes as of `irfft`.

    Raises:
        TrainerError: axes and lengths don't pair up, else as `irfft`.
    """
    *others, (last, extent) = _pairs("irfftn", x, s, axes)
    for axis, length in others:
        x = ifft(x, n=length, axis=axis, norm=norm)
    return irfft(x, n=None if s is None else extent, axis=last, norm=norm)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The `fft` of a Hermitian signal with first half x: `n` real numbers (default: 2 (m - 1) for m elements).

    Along `axis`; complex64 gives float32, complex128 float64.

    Raises:
        TrainerError: as `fft`.
    """
    return irfft(conj(_complex("hfft", x)), n=n, axis=axis, norm=_OTHER_WAY[_checked(norm)])


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`. The axis has n // 2 + 1 elements; float32 gives complex64, float64 complex128.

    Raises:
        TrainerError: as `rfft`.
    """
    return conj(rfft(x, n=n, axis=axis, norm=_OTHER_WAY[_checked(norm)]))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequencies of the elements of `fft`, in cycles per unit of the spacing `d`: of shape [n].

    float32 unless `dtype` says otherwise.

    Raises:
        TrainerError: `n` is negative or not an integer.
    """
    half = (how_many("fftfreq", "`n`", n) + 1) // 2
    numbers = concat([arange(0, half, dtype=dtypes.float64), arange(-(n // 2), 0, dtype=dtypes.float64)])
    return (numbers / (n * d)).astype(dtype or dtypes.float32)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequencies of the elements of `rfft`: of shape [n // 2 + 1]. float32 unless `dtype` says otherwise.

    Raises:
        TrainerError: `n` is negative or not an integer.
    """
    numbers = arange(0, how_many("rfftfreq", "`n`", n) // 2 + 1, dtype=dtypes.float64)
    return (numbers / (n * d)).astype(dtype or dtypes.float32)


def fftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The element of frequency zero moved to the middle along `axes` (None: all).

    Of x's shape and dtype, which may be any.

    Raises:
        TrainerError: there is no such axis.
    """
    tensor, numbers = _shifted(x, axes)
    return roll(tensor, [tensor.shape[axis] // 2 for axis in numbers], axis=numbers) if numbers else tensor


def ifftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`. Of x's shape and dtype, which may be any.

    Raises:
        TrainerError: there is no such axis.
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
    """Truncate or pad with zeros to `extent` along `axis`."""
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
    """Axes and their lengths (None: as they are)."""
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
    """`irfft`: elements that stand for their mirror image too count twice in its adjoint."""

    def gradient(inputs: Sequence[Tensor], outputs: Sequence[Tensor], cotangents: Sequence[Any]) -> list[Tensor]:
        half = _half("rfft", cotangents[0], axis, _OTHER_WAY[norm])
        number = arange(extent // 2 + 1, dtype=dtypes.int64)
        is_alone = (number == 0) | (number * 2 == extent)
        weight = 2.0 - is_alone.astype(half.dtype.part)
        return [half * weight.reshape([-1 if each == axis else 1 for each in range(half.ndim)])]

    shape = (*tensor.shape[:axis], extent, *tensor.shape[axis + 1 :])
    return numpy_call("fft.irfft", [tensor], [(shape, tensor.dtype.part)], gradient, n=extent, axis=axis, norm=norm)[0]
