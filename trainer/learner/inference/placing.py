"""Converts boxes from the network's image to the original, in a traced step; `Placement.boxes` does so on the host."""

from __future__ import annotations

from trainer import engine
from trainer.engine import Tensor


def placed(boxes: Tensor, placement: Tensor) -> Tensor:
    """Boxes [N, M, 4] around the corners of `boxes` in the original image, by affine maps `placement` [N, 3, 3]."""
    x, y = engine.expand_dims(boxes[:, :, 0::2], axis=3), engine.expand_dims(boxes[:, :, 1::2], axis=2)
    maps = engine.reshape(placement, (-1, 3, 3, 1, 1, 1))
    corners = [maps[:, row, 0] * x + maps[:, row, 1] * y + maps[:, row, 2] for row in (0, 1)]
    edges = [extreme(one, axis=(2, 3)) for extreme in (engine.min, engine.max) for one in corners]
    return engine.stack(edges, axis=2)
