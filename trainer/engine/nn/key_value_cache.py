"""The key-value cache of token-by-token generation."""

from __future__ import annotations

import numpy as np

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.graph.dtypes import DType, float32, int32
from trainer.engine.state import State
from trainer.engine.tensor import Tensor


class KeyValueCache:
    """Keys and values of the tokens so far, of one attention layer, in buffers of fixed capacity.

    `key` [B, G, capacity, D], `value` [B, G, capacity, E] and `length` (int32 [B], the tokens of each row) are states:
    a traced step that calls `update` with one token is compiled once, whatever the length. Row b of a batch may be
    longer than another: set `length` after a prompt that was padded on the right, and the padding is overwritten.

    Raises:
        TrainerError: an extent is less than 1.
    """

    def __init__(
        self, batch: int, heads: int, capacity: int, width: int, *, value_width: int | None = None,
        dtype: DType = float32, name: str = "cache",
    ) -> None:  # fmt: skip
        self.capacity = capacity
        shapes = ((batch, heads, capacity, width), (batch, heads, capacity, value_width or width))
        if min(*shapes[0], *shapes[1]) < 1:
            found = f"batch {batch}, heads {heads}, capacity {capacity}, width {width}"
            raise TrainerError("a KeyValueCache holds at least one element", found=found, expected="at least 1 of each")
        self.key, self.value = (
            State(functions.zeros(shape, dtype=dtype), f"{name}.{part}")
            for shape, part in zip(shapes, ("key", "value"), strict=True)
        )
        self.length = State(np.zeros(batch, np.int32), f"{name}.length")

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Append the keys [B, G, T, D] and values [B, G, T, E] of T tokens.

        Returns:
            All keys, all values, and the position of the first new token (int32 [B]), which is the `query_offset` of
            causal attention: what lies behind a row's length is not seen. Tokens past the capacity are not kept; ask
            `room` between steps.

        Raises:
            TrainerError: shapes differ from the cache's, T is more than its capacity, or keys and values differ in T.
                The cache is unchanged then.
        """
        parts = ((self.key, key), (self.value, value))
        for part, new in parts:
            fits = new.ndim == 4 and new.shape[:2] == part.shape[:2] and new.shape[3] == part.shape[3]
            if not fits or not 1 <= new.shape[2] <= self.capacity:
                expected = f"{[*part.shape[:2]]} + [1 to {self.capacity}, {part.shape[3]}]"
                raise TrainerError(f"{part.name} got tokens of another shape", found=list(new.shape), expected=expected)
        if key.shape[2] != value.shape[2]:
            found = f"{key.shape[2]} keys and {value.shape[2]} values"
            raise TrainerError(f"{self.key.name} got keys without values", found=found, expected="a value for each key")
        offset = self.length + 0
        held = [self._written(part, new.astype(part.dtype), offset) for part, new in parts]
        for (part, _), written in zip(parts, held, strict=True):
            part.assign(written)
        self.length.assign(offset + key.shape[2])
        return held[0], held[1], offset

    def _written(self, part: State, new: Tensor, offset: Tensor) -> Tensor:
        place = functions.arange(self.capacity, dtype=int32) - functions.reshape(offset, (-1, 1))
        place = functions.reshape(place, (place.shape[0], 1, self.capacity, 1))
        count = new.shape[2]
        if count > 1:
            nearest = functions.broadcast_to(functions.clip(place, 0, count - 1), part.shape)
            new = functions.take_along_axis(new, nearest, axis=2)
        return functions.where((place >= 0) & (place < count), new, part)

    def room(self) -> int:
        """Tokens that every row can take, 0 of a full cache; reads `length`, so not inside of a traced step."""
        return max(0, self.capacity - int(self.length.numpy().max()))

    def reset(self) -> None:
        """Forget all tokens."""
        self.length.assign(0)
