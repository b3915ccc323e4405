"""Decides which items form which batch."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trainer.datasets.samplers import Sampler

_ORDERS_KEPT = 2  # the current epoch's and the next one's


class Position(NamedTuple):
    """A batch: batch `step` of epoch `epoch`, both counted from 0."""

    epoch: int
    step: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The items of a batch; `weight` (float32 [B]) is 0 for padding."""

    epoch: int
    indices: np.ndarray
    weight: np.ndarray


class Planner:
    """Returns the items of each batch, or only of its `rows`; callable from any thread."""

    def __init__(self, sampler: Sampler, batch_size: int, seed: int, rows: slice = slice(None)) -> None:
        self._sampler, self._batch_size, self._seed, self._rows = sampler, batch_size, seed, rows
        self._orders: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()

    def __call__(self, position: Position) -> Plan:
        order = self._order(position.epoch)
        first = position.step * self._batch_size
        places = np.arange(first, first + self._batch_size)[self._rows]
        weight = (places < len(order)).astype(np.float32)
        return Plan(position.epoch, np.take(order, places, mode="wrap"), weight)

    def _order(self, epoch: int) -> np.ndarray:
        with self._lock:
            if epoch not in self._orders:
                while len(self._orders) >= _ORDERS_KEPT:
                    self._orders.pop(next(iter(self._orders)))
                self._orders[epoch] = self._sampler.order(self._seed, epoch)
            return self._orders[epoch]
