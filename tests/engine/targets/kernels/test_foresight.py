"""What tiles ask for ahead of its use."""

from __future__ import annotations

from typing import get_args

import pytest

from trainer.engine.graph.dtypes import float32
from trainer.engine.targets.cpu import defaults, templates
from trainer.engine.targets.cpu.kernels.foresight import Foresight, tile_number
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction
from trainer.engine.targets.cpu.machine import AVX512
from trainer.engine.targets.ir.writer import Writer

LINE = 16


@pytest.mark.parametrize(
    ("rows", "width", "pitch", "tiles", "steps"),
    [(8, 2112, 20480, 32, 288), (6, 7424, 7424, 128, 1152), (10, 1856, 1856, 10, 64), (1, 4096, 0, 7, 256)],
)
def test_the_tiles_of_a_task_ask_for_every_line_of_a_window(
    rows: int, width: int, pitch: int, tiles: int, steps: int
) -> None:
    foresight, asked = Foresight.of(rows, width, pitch, tiles, steps), set[int]()
    for tile in range(tiles):
        start = foresight.part(Writer(), tile)
        assert isinstance(start, int)
        for step in range(steps):
            first = start + step * foresight.step
            asked.update(place // LINE for place in range(first, first + foresight.step, LINE))
    wanted = {(row * pitch + element) // LINE for row in range(rows) for element in range(width)}
    assert wanted <= asked


def test_tiles_are_numbered_in_the_order_of_their_loops() -> None:
    tiles = (2, 3), (5, 4)
    found = [tile_number(Writer(), (row, column), tiles) for row in range(0, 6, 2) for column in range(0, 20, 5)]
    assert found == list(range(12))


@pytest.mark.parametrize("direction", get_args(Direction))
@pytest.mark.parametrize("window", [1, 3])
def test_kernels_of_convolutions_ask_for_memory(direction: Direction, window: int) -> None:
    around = (window // 2, window // 2)
    spec = ConvolutionSpec(float32, direction, 2, 32, (20, 20), 32, (window, window), padding=(around, around))
    text = templates.template_of(spec).render(spec, defaults.choose(spec, AVX512), "kernel")
    assert "ptr %ahead" in text
    assert "@llvm.prefetch" in text
