"""No pane of the overview is mostly empty, whatever state a run is in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pane_use import SIZES, count
from recorded_states import STATES

SMALLEST, *LARGER = SIZES


@pytest.mark.parametrize(
    "size",
    [SMALLEST, *(pytest.param(size, marks=pytest.mark.full) for size in LARGER)],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
@pytest.mark.parametrize("state", STATES)
async def test_a_third_of_the_rows_of_each_pane_is_used(state: str, size: tuple[int, int], tmp_path: Path) -> None:
    panes = await count(state, size, tmp_path)
    assert {"phases", "loss", "valid", "log"} <= panes.keys() or state == "many_metrics"
    assert not {pane: rows for pane, rows in panes.items() if 3 * rows[0] < rows[1]}
