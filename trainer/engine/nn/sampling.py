"""Sampling images between pixels: grids, perspective, boxes and deformed windows, as in torch, torchvision and kornia.

Each function gathers the neighbors of each coordinate and computes their weighted sum, so gradients of any order flow
to images and coordinates. At integer coordinates, where the neighbors change, the gradient uses the later ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.functions.axes import padding_pairs, pair
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.tensor import Tensor, wrapped

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")
_CUBIC = -0.75


def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """Samples x [N, C, H, W] at the coordinates `grid` [N, P, Q, 2]; returns [N, C, P, Q].

    Coordinates are (x, y), from -1 (left, top) to 1 (right, bottom). The result has x's floating-point dtype.

    Args:
        mode: bilinear, nearest (ties to even) or bicubic (Keys, a = -0.75).
        padding_mode: values outside the image: zeros, the nearest pixel (border), or mirrored pixels (reflection).
        align_corners: -1 and 1 are the centers of the outermost pixels, instead of their outer edges.

    Raises:
        TrainerError: shapes don't fit, or a mode is unknown.

    >>> nn.functional.grid_sample(engine.ones((1, 2, 3, 3)), engine.zeros((1, 1, 1, 2))).shape
    (1, 2, 1, 1)
    """
    if grid.ndim != 4 or grid.shape[-1] != 2 or x.ndim != 4 or grid.shape[0] != x.shape[0]:
        expected = "x [N, C, H, W] and grid [N, P, Q, 2]"
        raise TrainerError("grid_sample: shapes don't fit", found=f"{x.shape} and {grid.shape}", expected=expected)
    height, width = x.shape[2:]
    columns, rows = (
        (
            (grid[..., axis] + 1) * (0.5 * (extent - 1))
            if align_corners
            else (grid[..., axis] + 1) * (0.5 * extent) - 0.5
        )
        for axis, extent in ((0, width), (1, height))
    )
    return _picture(_sampled("grid_sample", x, rows, columns, mode, padding_mode, align_corners))


def affine_grid(theta: Tensor, size: Iterable[int], align_corners: bool = False) -> Tensor:
    """Returns the `grid_sample` grid [N, H, W, 2] for images of `size` [N, C, H, W] under `theta` [N, 2, 3].

    Each coordinate is theta times (x, y, 1) of the result's pixel, with (x, y) from -1 to 1. The result has theta's
    floating-point dtype.

    Raises:
        TrainerError: theta is not [N, 2, 3], or `size` is not [N, C, H, W] with extents of at least 1.

    >>> nn.functional.affine_grid(engine.asarray([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 3, 2, 2))[0, 0].tolist()
    [[-0.5, -0.5], [0.5, -0.5]]
    """
    batch, *_, height, width = extents = tuple(size)
    if len(extents) != 4 or min(extents) < 1 or theta.shape != (batch, 2, 3):
        found, expected = f"theta {theta.shape}, size {extents}", "theta [N, 2, 3], size [N, C, H, W]"
        raise TrainerError("affine_grid: shapes don't fit", found=found, expected=expected)
    across, down = (_centers(extent, align_corners, theta.dtype) for extent in (width, height))
    parts = [functions.reshape(theta[:, :, column], (batch, 1, 1, 2)) for column in range(3)]
    return (
        parts[0] * functions.reshape(across, (1, width, 1))
        + parts[1] * functions.reshape(down, (height, 1, 1))
        + parts[2]
    )


def warp_perspective(
    x: Tensor, matrix: Tensor, size: tuple[int, int], mode: str = "bilinear", padding_mode: str = "zeros"
) -> Tensor:
    """Warps x [N, C, H, W] by the perspective `matrix` [N, 3, 3]; returns [N, C, *size].

    The matrix maps a pixel (x, y, 1) of x to its coordinates in the result, up to a factor, as in OpenCV and kornia;
    coordinates refer to pixel centers. Modes are as in `grid_sample`. The result has x's floating-point dtype.

    Raises:
        TrainerError: shapes don't fit, or a mode is unknown.

    >>> nn.functional.warp_perspective(engine.ones((1, 1, 2, 2)), engine.eye(3)[None], (2, 2))[0, 0].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if x.ndim != 4 or matrix.shape != (x.shape[0], 3, 3) or len(size) != 2 or min(size) < 1:
        found = f"x {x.shape}, matrix {matrix.shape}, size {size}"
        raise TrainerError(
            "warp_perspective: shapes don't fit", found=found, expected="[N, C, H, W], [N, 3, 3], (P, Q)"
        )
    height, width = size
    across = functions.reshape(functions.arange(width, dtype=matrix.dtype), (1, 1, width))
    down = functions.reshape(functions.arange(height, dtype=matrix.dtype), (1, height, 1))

    def entry(row: int, column: int) -> Tensor:
        """Returns an entry of the adjugate, which is the inverse up to a factor."""
        (a, b), (c, d) = (sorted((each + step) % 3 for step in (1, 2)) for each in (column, row))
        minor = matrix[:, a, c] * matrix[:, b, d] - matrix[:, a, d] * matrix[:, b, c]
        return functions.reshape(minor if (row + column) % 2 == 0 else -minor, (-1, 1, 1))

    column, line, scale = (entry(row, 0) * across + entry(row, 1) * down + entry(row, 2) for row in range(3))
    return _picture(
        _sampled("warp_perspective", x, line / scale, column / scale, mode, padding_mode, align_corners=True)
    )


def roi_align(
    x: Tensor, boxes: Tensor, output_size: int | tuple[int, int], spatial_scale: float = 1.0, sampling_ratio: int = 2,
    aligned: bool = False,
) -> Tensor:  # fmt: skip
    """Averages x [N, C, H, W] over each cell of each box [K, 5] (He et al. 2017); returns [K, C, *output_size].

    The result has x's floating-point dtype.

    Args:
        boxes: index of the image, x_min, y_min, x_max, y_max, in pixels times 1 / `spatial_scale`.
        sampling_ratio: number of sampling points per cell along each axis. (torchvision's default, -1, makes
            it depend on the boxes, which a compiled step does not support.)
        aligned: coordinates refer to pixel centers, instead of being shifted by half a pixel; boxes may be smaller than
            1.

    Raises:
        TrainerError: shapes don't fit, or sampling_ratio or output_size is below 1.

    >>> nn.functional.roi_align(engine.ones((1, 2, 8, 8)), engine.asarray([[0.0, 1.0, 1.0, 5.0, 5.0]]), 3).shape
    (1, 2, 3, 3)
    """
    cells = pair("roi_align", "output_size", output_size)
    if x.ndim != 4 or boxes.ndim != 2 or boxes.shape[1] != 5 or min(sampling_ratio, *cells) < 1:
        found = f"x {x.shape}, boxes {boxes.shape}, output_size {cells}, sampling_ratio {sampling_ratio}"
        expected = "x [N, C, H, W], boxes [K, 5], sizes and sampling_ratio of at least 1"
        raise TrainerError("roi_align: arguments don't fit", found=found, expected=expected)
    batch, channels, *spatial = x.shape
    count, shift = boxes.shape[0], 0.5 if aligned else 0.0
    places, inside = [], []
    for axis, (extent, parts) in enumerate(zip(spatial, cells, strict=True)):
        start, end = (boxes[:, side - axis] * spatial_scale - shift for side in (2, 4))
        length = end - start if aligned else functions.maximum(end - start, 1.0)
        steps = (functions.arange(parts * sampling_ratio, dtype=x.dtype) + 0.5) * (1 / (parts * sampling_ratio))
        place = functions.expand_dims(start, axis=1) + functions.expand_dims(length, axis=1) * steps
        inside.append((place >= -1.0) & (place <= float(extent)))
        places.append(functions.clip(place, 0.0, float(extent - 1)))
    shape = (count, cells[0] * sampling_ratio, cells[1] * sampling_ratio)
    rows = functions.broadcast_to(functions.expand_dims(places[0], axis=2), shape)
    columns = functions.broadcast_to(functions.expand_dims(places[1], axis=1), shape)
    is_inside = functions.expand_dims(inside[0], axis=2) & functions.expand_dims(inside[1], axis=1)
    picture = functions.clip(boxes[:, 0].astype(dtypes.int32), 0, batch - 1) * math.prod(spatial)
    values = _bilinear(_pixels(x, together=True), spatial, rows, columns, functions.reshape(picture, (count, 1, 1)))
    read = functions.where(functions.expand_dims(is_inside, axis=-1), values, 0)
    split = (count, cells[0], sampling_ratio, cells[1], sampling_ratio, channels)
    return functions.permute_dims(functions.mean(functions.reshape(read, split), axis=(2, 4)), (0, 3, 1, 2))


def deform_conv2d(
    x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Convolves x [N, C, H, W] at points moved by `offset` (Dai et al. 2017); returns [N, K, P, Q].

    The result has x's floating-point dtype.

    Args:
        offset: [N, 2·G·R·S, P, Q]: (down, across) for each of G groups of channels and each point of the window.
        weight: [K, C/groups, R, S].
        mask: [N, G·R·S, P, Q], a factor for each sampled value (Zhu et al. 2019).

    Values outside x are zeros. Gradients flow to x, offset, weight, bias and mask.

    Raises:
        TrainerError: shapes don't fit the geometry.

    >>> x, weight = engine.ones((1, 1, 3, 3)), engine.ones((1, 1, 2, 2))
    >>> nn.functional.deform_conv2d(x, engine.zeros((1, 8, 2, 2)), weight)[0, 0].tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    strides, spacings = pair("deform_conv2d", "stride", stride), pair("deform_conv2d", "dilation", dilation)
    margins = padding_pairs("deform_conv2d", padding)
    batch, channels, *spatial = x.shape
    filters, depth, *window = weight.shape
    size = math.prod(window)
    extents = tuple(
        (extent + sum(around) - spacing * (length - 1) - 1) // step + 1
        for extent, around, spacing, length, step in zip(spatial, margins, spacings, window, strides, strict=True)
    )
    parts = offset.shape[1] // (2 * size)
    fits = parts > 0 and channels % parts == 0 and channels % depth == 0 and filters % (channels // depth) == 0
    moved = (batch, 2 * parts * size, *extents)
    if not fits or offset.shape != moved or (mask is not None and mask.shape != (batch, parts * size, *extents)):
        shapes = (
            f"x {x.shape}, offset {offset.shape}, weight {weight.shape}, mask {None if mask is None else mask.shape}"
        )
        expected = f"offset [N, 2·G·{size}, {extents[0]}, {extents[1]}], mask [N, G·{size}, ...], channels in groups"
        raise TrainerError("deform_conv2d: shapes don't fit", found=shapes, expected=expected)
    groups, area = channels // depth, math.prod(extents)
    order = (0, 1, 4, 5, 2, 3)  # to [N, G, P, Q, R·S, (down, across)]
    moves = functions.permute_dims(functions.reshape(offset, (batch, parts, size, 2, *extents)), order)
    places = []
    for axis in range(2):
        starts = functions.arange(extents[axis], dtype=x.dtype) * strides[axis] - margins[axis][0]
        inside = functions.arange(window[axis], dtype=x.dtype) * spacings[axis]
        starts = functions.reshape(starts, (extents[0], 1, 1, 1) if axis == 0 else (extents[1], 1, 1))
        inside = functions.reshape(inside, (window[0], 1) if axis == 0 else (window[1],))
        regular = functions.broadcast_to(starts + inside, (*extents, *window))
        places.append(functions.reshape(regular, (*extents, size)) + moves[..., axis])
    pixels = functions.reshape(x, (batch * parts, channels // parts, *spatial))
    rows, columns = (functions.reshape(place, (batch * parts, area * size)) for place in places)
    found = _sampled("deform_conv2d", pixels, rows, columns, "bilinear", "zeros", align_corners=False)
    found = functions.reshape(found, (batch, parts, area, size, channels // parts))
    if mask is not None:
        factors = functions.permute_dims(functions.reshape(mask, (batch, parts, size, area)), (0, 1, 3, 2))
        found = found * functions.expand_dims(factors, axis=-1)
    found = functions.reshape(functions.permute_dims(found, (0, 2, 3, 1, 4)), (batch * area, size, groups, depth))
    left = functions.reshape(functions.permute_dims(found, (2, 0, 1, 3)), (groups, batch * area, size * depth))
    right = functions.reshape(weight, (groups, filters // groups, depth, size))
    right = functions.reshape(functions.permute_dims(right, (0, 3, 2, 1)), (groups, size * depth, filters // groups))
    y = functions.matmul(left, right) if groups > 1 else functions.expand_dims(left[0] @ right[0], axis=0)
    y = functions.reshape(functions.permute_dims(y, (1, 0, 2)), (batch, *extents, filters))
    y = functions.permute_dims(y, (0, 3, 1, 2))
    return y if bias is None else y + functions.reshape(bias, (filters, 1, 1))


# --- shared helpers --------------------------------------------------------------------------------------------------


def _centers(extent: int, align_corners: bool, dtype: dtypes.DType) -> Tensor:
    """Returns the coordinates of the pixels along an axis, from -1 to 1."""
    if align_corners:
        return functions.linspace(-1.0, 1.0, extent, dtype=dtype) if extent > 1 else functions.zeros(1, dtype=dtype)
    return (functions.arange(extent, dtype=dtype) * 2 + (1 - extent)) * (1 / extent)


def _pixels(x: Tensor, *, together: bool = False) -> Tensor:
    """Returns x [N, C, H, W] as rows of channels [N, H·W, C], or [1, N·H·W, C] for all images `together`."""
    batch, channels, height, width = x.shape
    shape = (1, batch * height * width, channels) if together else (batch, height * width, channels)
    return functions.reshape(functions.permute_dims(x, (0, 2, 3, 1)), shape)


def _picture(found: Tensor) -> Tensor:
    """Transposes [N, P, Q, C] to [N, C, P, Q]."""
    return functions.permute_dims(found, (0, 3, 1, 2))


def _sampled(
    name: str, x: Tensor, rows: Tensor, columns: Tensor, mode: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """Samples x at pixel coordinates [N, ...]; returns [N, ..., C]."""
    if mode not in MODES or padding_mode not in PADDING_MODES:
        found, expected = (
            f"mode {mode!r}, padding_mode {padding_mode!r}",
            f"{', '.join(MODES)}; {', '.join(PADDING_MODES)}",
        )
        raise TrainerError(f"{name}: unknown mode", found=found, expected=expected)
    spatial, pixels = x.shape[2:], _pixels(x)
    if 0 in spatial:
        raise TrainerError(f"{name}: the image is empty", found=f"shape {x.shape}")
    rows, columns = (place.astype(x.dtype) for place in (rows, columns))

    def held(place: Tensor, extent: int) -> Tensor:
        return _inside(place, extent, padding_mode, align_corners)

    if mode == "bicubic":
        return _bicubic(pixels, spatial, rows, columns, None if padding_mode == "zeros" else held)
    if padding_mode != "zeros":
        rows, columns = held(rows, spatial[0]), held(columns, spatial[1])
    if mode == "bilinear":
        return _bilinear(pixels, spatial, rows, columns)
    return _neighbors(pixels, spatial, [(functions.round(rows), functions.round(columns), functions.ones_like(rows))])


def _inside(place: Tensor, extent: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Moves coordinates into the image: mirrors them if requested, then clamps them to the nearest edge."""
    if padding_mode == "reflection":
        low, span = (0.0, float(extent - 1)) if align_corners else (-0.5, float(extent))
        if span == 0:
            return functions.zeros_like(place)
        distance = functions.abs(place - low)
        turns = functions.floor(distance / span)
        rest = distance - turns * span
        place = functions.where(functions.remainder(turns, 2.0) == 0, rest, span - rest) + low
    return functions.clip(place, 0.0, float(extent - 1))


Tap = tuple[Tensor, Tensor, Tensor]
"""Row and column (integers in the image's dtype) and weight of a neighbor."""


def _bilinear(
    pixels: Tensor, spatial: Iterable[int], rows: Tensor, columns: Tensor, first: Tensor | None = None
) -> Tensor:
    """Weighted sum of the four neighbors; neighbors outside are zeros. `first` is the offset of each image."""
    top, left = functions.floor(rows), functions.floor(columns)
    down, across = rows - top, columns - left
    taps = [
        (row, column, vertical * horizontal)
        for row, vertical in ((top, 1 - down), (top + 1, down))
        for column, horizontal in ((left, 1 - across), (left + 1, across))
    ]
    return _neighbors(pixels, spatial, taps, first)


def _bicubic(
    pixels: Tensor, spatial: tuple[int, ...], rows: Tensor, columns: Tensor,
    held: Callable[[Tensor, int], Tensor] | None,
) -> Tensor:  # fmt: skip
    """Weighted sum of the sixteen neighbors (Keys 1981), moved into the image by `held`, or zero outside."""

    def along(place: Tensor, extent: int) -> list[tuple[Tensor, Tensor]]:
        start = functions.floor(place)
        steps = [(start + step, _keys(place - start, step)) for step in range(-1, 3)]
        return steps if held is None else [(functions.round(held(each, extent)), weight) for each, weight in steps]

    taps = [
        (row, column, vertical * horizontal)
        for row, vertical in along(rows, spatial[0])
        for column, horizontal in along(columns, spatial[1])
    ]
    return _neighbors(pixels, spatial, taps)


def _keys(share: Tensor, step: int) -> Tensor:
    """Returns the weight of the neighbor `step` pixels after the pixel that is `share` before a coordinate."""
    distance = functions.abs(share - step)
    if step in (0, 1):
        return ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1
    return ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC


def _neighbors(pixels: Tensor, spatial: Iterable[int], taps: Sequence[Tap], first: Tensor | None = None) -> Tensor:
    """Weighted sum [N, ..., C] of pixels [N, H·W, C] at the taps, each [N, ...]; taps outside read zeros."""
    height, width = spatial
    places, weights = [], []
    for rows, columns, weight in taps:
        inside = (rows >= 0) & (rows <= height - 1) & (columns >= 0) & (columns <= width - 1)
        row = functions.clip(rows, 0.0, float(height - 1)).astype(dtypes.int32)
        column = functions.clip(columns, 0.0, float(width - 1)).astype(dtypes.int32)
        place = row * width + column
        places.append(place if first is None else place + first)
        weights.append(functions.where(inside, weight, 0.0))
    shape, (batch, _, channels) = taps[0][0].shape, pixels.shape
    flat = (batch, math.prod(shape) // max(1, batch))
    index, share = (  # tap after tap in memory: vectors compute and store their positions
        functions.permute_dims(functions.stack([functions.reshape(each, flat) for each in parts], axis=1), (0, 2, 1))
        for parts in (places, weights)
    )
    found = p.gather_sum(pixels.node, index.node, share.astype(pixels.dtype).node)
    return functions.reshape(wrapped(found, pixels, index, share), (*shape, channels))
