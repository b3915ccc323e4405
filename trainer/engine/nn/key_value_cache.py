"""Key-value cache for token-by-token generation."""

from __future__ import annotations

import numpy as np

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.graph.dtypes import DType, float32, int32
from trainer.engine.state import State
from trainer.engine.tensor import Tensor


class KeyValues:
    """Keys and values of one attention layer for the tokens so far, as tensors that `update` replaces.

    For steps that take and return all of their state. Rows of a batch may differ in length: after a right-padded
    prompt, set `length`, and new tokens overwrite the padding.

    Args:
        key, value: [B, G, capacity, D] and [B, G, capacity, E].
        length: int32 [B]: number of tokens in each row.

    Raises:
        TrainerError: the shapes don't fit.
    """

    def __init__(self, key: Tensor, value: Tensor, length: Tensor) -> None:
        if not (key.ndim == value.ndim == 4 and key.shape[:3] == value.shape[:3] and length.shape == key.shape[:1]):
            raise TrainerError(
                "the parts of a key-value cache don't fit", found=f"key {list(key.shape)}, value {list(value.shape)}, "
                f"length {list(length.shape)}", expected="[B, G, capacity, D], [B, G, capacity, E] and [B]",
            )  # fmt: skip
        self.key, self.value, self.length = key, value, length

    @property
    def capacity(self) -> int:
        """Maximum number of tokens per row."""
        return self.key.shape[2]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Appends the keys [B, G, T, D] and values [B, G, T, E] of T tokens.

        Returns:
            All keys, all values, and the position of the first new token (int32 [B]). As `query_offset` of causal
            attention, the position masks everything past a row's length. Tokens past the capacity are dropped.

        Raises:
            TrainerError: shapes differ from the stored ones, T exceeds the capacity, or keys and values differ in T.
                The cache stays unchanged.
        """
        for name, held, new in (("key", self.key, key), ("value", self.value, value)):
            fits = new.ndim == 4 and new.shape[:2] == held.shape[:2] and new.shape[3] == held.shape[3]
            if not fits or not 1 <= new.shape[2] <= self.capacity:
                expected = f"{[*held.shape[:2]]} + [1 to {self.capacity}, {held.shape[3]}]"
                raise TrainerError(f"the {name} of a cache got tokens of another shape", found=list(new.shape),
                                   expected=expected)  # fmt: skip
        if key.shape[2] != value.shape[2]:
            found = f"{key.shape[2]} keys and {value.shape[2]} values"
            raise TrainerError("a cache got keys without values", found=found, expected="a value for each key")
        offset = self.length + 0
        keys, values = (_written(held, new, offset) for held, new in ((self.key, key), (self.value, value)))
        self._keep(keys, values, offset + key.shape[2])
        return keys, values, offset

    def _keep(self, key: Tensor, value: Tensor, length: Tensor) -> None:
        self.key, self.value, self.length = key, value, length


class KeyValueCache(KeyValues):
    """Keys and values of one attention layer for the tokens so far, in buffers of fixed capacity.

    `key` [B, G, capacity, D], `value` [B, G, capacity, E] and `length` (int32 [B], tokens per row) are states, so a
    traced step that calls `update` with one token is compiled once for all lengths.

    Raises:
        TrainerError: an extent is less than 1.
    """

    key: State
    value: State
    length: State

    def __init__(
        self, batch: int, heads: int, capacity: int, width: int, *, value_width: int | None = None,
        dtype: DType = float32, name: str = "cache",
    ) -> None:  # fmt: skip
        shapes = ((batch, heads, capacity, width), (batch, heads, capacity, value_width or width))
        if min(*shapes[0], *shapes[1]) < 1:
            found = f"batch {batch}, heads {heads}, capacity {capacity}, width {width}"
            raise TrainerError("a KeyValueCache holds at least one element", found=found, expected="at least 1 of each")
        key, value = (
            State(functions.zeros(shape, dtype=dtype), f"{name}.{part}")
            for shape, part in zip(shapes, ("key", "value"), strict=True)
        )
        super().__init__(key, value, State(np.zeros(batch, np.int32), f"{name}.length"))

    def _keep(self, key: Tensor, value: Tensor, length: Tensor) -> None:
        self.key.assign(key)
        self.value.assign(value)
        self.length.assign(length)

    def room(self) -> int:
        """Number of tokens that every row can still take, 0 if full. Reads `length`, so it fails in a traced step."""
        return max(0, self.capacity - int(self.length.numpy().max()))

    def reset(self) -> None:
        """Removes all tokens."""
        self.length.assign(0)


def _written(held: Tensor, new: Tensor, offset: Tensor) -> Tensor:
    """Returns `held` [B, G, capacity, D] with `new` [B, G, T, D] written from position `offset` [B] on."""
    capacity, count, new = held.shape[2], new.shape[2], new.astype(held.dtype)
    place = functions.arange(capacity, dtype=int32) - functions.reshape(offset, (-1, 1))
    place = functions.reshape(place, (place.shape[0], 1, capacity, 1))
    if count > 1:
        nearest = functions.broadcast_to(functions.clip(place, 0, count - 1), held.shape)
        new = functions.take_along_axis(new, nearest, axis=2)
    return functions.where((place >= 0) & (place < count), new, held)
