"""Chooses the few lengths to which batches of texts are padded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LENGTH_STEPS = 5
"""Default number of lengths. Each costs one compilation; for lengths between 20 and 200, five pad by a sixth."""

_CANDIDATES = 512
"""Maximum number of lengths to choose from."""


def length_steps(sizes: Sequence[int] | np.ndarray, count: int) -> tuple[int, ...]:
    """Returns at most `count` lengths, including the maximum, that minimize the number of tokens if each item is padded
    to the next length. Partitions the sorted lengths by dynamic programming.

    Args:
        sizes: the lengths of all items.
        count: maximum number of lengths.
    """
    lengths, items = np.unique(np.maximum(np.asarray(sizes, np.int64), 1), return_counts=True)
    if len(lengths) > _CANDIDATES:
        step = -(-int(lengths[-1]) // _CANDIDATES)
        coarse = np.minimum(-(-lengths // step) * step, lengths[-1])
        lengths, place = np.unique(coarse, return_inverse=True)
        items = np.bincount(place, items).astype(np.int64)
    below = np.concatenate([[0], np.cumsum(items)])
    cost = lengths * below[1:]
    """Number of tokens of the items up to each length if all are padded to that length."""
    choices: list[np.ndarray] = []
    for _ in range(min(count, len(lengths)) - 1):
        last = cost[:, None] + lengths * (below[None, 1:] - below[1:, None])  # [length before, last length]
        last[np.tril_indices(len(lengths))] = np.iinfo(np.int64).max
        best = np.minimum(last.min(axis=0), cost)
        choices.append(np.where(last.min(axis=0) < cost, last.argmin(axis=0), -1))
        cost = best
    at, chosen = len(lengths) - 1, []
    for choice in reversed(choices):
        if choice[at] >= 0:
            chosen.append(int(lengths[at]))
            at = int(choice[at])
    return tuple(reversed([*chosen, int(lengths[at])]))
