"""What the learner does with a metric, on the reference device: parts of batches, padded and uneven, folded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainer import engine
from trainer.metrics import Metric, Predictions, State
from trainer.metrics.folding.fold import refuse_nan
from trainer.metrics.metric import WEIGHT

Roles = dict[str, np.ndarray]


def part(metric: Metric, roles: Roles, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """One batch's part, as arrays."""
    tensors = {name: engine.asarray(values) for name, values in roles.items()}
    given = Predictions(weight=None if weight is None else engine.asarray(weight), **tensors)
    found = {name: np.asarray(value.numpy()) for name, value in metric.partial(given).items()}
    if metric.folds_in != "device":
        found[WEIGHT] = np.asarray(given.weight.numpy())
        refuse_nan(found)
    return found


def state_of(metric: Metric, roles: Roles, weight: np.ndarray | None = None) -> State:
    """The state after one batch."""
    return metric.fold({}, part(metric, roles, weight))


def measured(metric: Metric, weight: np.ndarray | None = None, **roles: np.ndarray) -> dict[str, float]:
    """The values of one batch."""
    return {name: float(value) for name, value in metric.values(state_of(metric, roles, weight)).items()}


def states_of_pieces(metric: Metric, sizes: Sequence[int], rows: int, roles: Roles) -> list[State]:
    """The states of consecutive pieces, each filled up to `rows` with rows of weight 0 that repeat the first."""
    states: list[State] = []
    start = 0
    for size in sizes:
        pieces = {
            name: np.concatenate([values[start : start + size], np.repeat(values[:1], rows - size, axis=0)])
            for name, values in roles.items()
        }
        states.append(state_of(metric, pieces, (np.arange(rows) < size).astype(np.float32)))
        start += size
    return states


def split_measured(
    metric: Metric, sizes: Sequence[int], *, order: Sequence[int] | None = None, **roles: np.ndarray
) -> dict[str, float]:
    """The values of padded pieces, each a state of its own, merged in some order."""
    states = states_of_pieces(metric, sizes, max(sizes), roles)
    total: State = {}
    for index in order if order is not None else range(len(states)):
        total = metric.merge(total, states[index])
    return {name: float(value) for name, value in metric.values(total).items()}
