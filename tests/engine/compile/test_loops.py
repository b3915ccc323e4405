"""How loops are split into tasks."""

from __future__ import annotations

import pytest

from trainer.engine.compile.loops import ENOUGH_TASKS, column_strip
from trainer.engine.kernels.reduction import STRIP_PARTS


@pytest.mark.parametrize(
    ("neighbours", "outer", "blocks", "expected"),
    [(16, 1, 32, 16), (4, 1, 49, 4), (5, 1, 49, 8), (8, 1, 13, 4), (8, 6, 13, 8), (1, 1, 49, 1), (32, 1, 1, 1)],
)
def test_a_task_takes_neighbouring_columns_while_enough_tasks_remain(
    neighbours: int, outer: int, blocks: int, expected: int
) -> None:
    parts = neighbours * outer
    strip = column_strip(neighbours, parts, blocks)
    assert strip == expected <= STRIP_PARTS
    assert strip == 1 or -(-parts // strip) * blocks >= ENOUGH_TASKS
