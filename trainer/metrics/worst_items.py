"""The worst items of an evaluation: at most a fixed number, independent of batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class WorstItems:
    """At most `limit` items, the worst first; among equal scores, the lower index first. NaN is worst.

    Args:
        items: their indices in the data set, int64 [N], each once.
        scores: error score of each, float64 [N]; higher is worse.
    """

    limit: int
    items: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def with_more(self, items: np.ndarray, scores: np.ndarray) -> WorstItems:
        """The worst of these items and the given ones. An item in both has its worse score."""
        items, scores = np.concatenate([self.items, items]), np.concatenate([self.scores, scores])
        is_nan = np.isnan(scores)
        order = np.lexsort((items, -np.where(is_nan, np.inf, scores), ~is_nan))
        _, first = np.unique(items[order], return_index=True)
        kept = order[np.sort(first)[: self.limit]]
        return WorstItems(self.limit, items[kept].astype(np.int64), scores[kept])
