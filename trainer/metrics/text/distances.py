"""Edit distance and longest common subsequence of many pairs of sequences at once.

Sequences are rows of integers [B, L] with lengths [B]; elements beyond the length are ignored. Both use the textbook
recurrence (Wagner and Fischer 1974), one row of the table per step, with a running minimum or maximum along the row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer]


def edit_distances(one: Integers, lengths: Integers, other: Integers, other_lengths: Integers) -> NDArray[np.int64]:
    """The edit distance of each pair (minimum insertions, deletions and substitutions), int64 [B]."""
    steps = np.arange(other.shape[1] + 1)
    row = np.broadcast_to(steps, (len(one), len(steps))).copy()
    found = np.where(lengths == 0, other_lengths, 0)
    for at in range(one.shape[1]):
        kept = row[:, :-1] + (one[:, at : at + 1] != other)
        row = np.concatenate([np.full((len(one), 1), at + 1), np.minimum(row[:, 1:] + 1, kept)], axis=1)
        row = np.minimum.accumulate(row - steps, axis=1) + steps
        found = np.where(lengths == at + 1, _at(row, other_lengths), found)
    return found.astype(np.int64)


def common_lengths(one: Integers, lengths: Integers, other: Integers, other_lengths: Integers) -> NDArray[np.int64]:
    """The length of the longest subsequence common to the sequences of each pair, int64 [B]."""
    row = np.zeros((len(one), other.shape[1] + 1), np.int64)
    found = np.zeros(len(one), np.int64)
    for at in range(one.shape[1]):
        longer = row[:, :-1] + (one[:, at : at + 1] == other)
        row[:, 1:] = np.maximum.accumulate(np.maximum(row[:, 1:], longer), axis=1)
        found = np.where(lengths == at + 1, _at(row, other_lengths), found)
    return found


def _at(row: NDArray[np.int64], columns: Integers) -> NDArray[np.int64]:
    return np.take_along_axis(row, columns.astype(np.int64)[:, None], axis=1)[:, 0]
