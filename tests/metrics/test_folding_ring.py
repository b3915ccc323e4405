"""The ring that records go through: it begins again where all is read, and never over what is not."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from trainer.metrics.folding.ring import Ring, shared_memory


@pytest.fixture
def ends() -> Iterator[tuple[Ring, Ring]]:
    descriptor = shared_memory(256)
    yield Ring(descriptor), Ring(descriptor)
    os.close(descriptor)


def write(ring: Ring, value: int, size: int = 64) -> tuple[int, int] | None:
    def source(target: memoryview) -> None:
        target[:] = bytes([value]) * size

    return ring.write([(source, size)], size)


def test_memory_is_used_again_once_all_is_read(ends: tuple[Ring, Ring]) -> None:
    writer, reader = ends
    first, second = write(writer, 1), write(writer, 2)
    assert first is not None and second is not None
    for place in (first, second):
        reader.done(place[1])
    third = write(writer, 3)
    assert third is not None
    assert third[0] % writer.capacity == 0
    assert set(reader.read(*third).tolist()) == {3}


def test_what_is_not_read_is_not_written_over(ends: tuple[Ring, Ring]) -> None:
    writer, reader = ends
    first = write(writer, 1)
    assert first is not None
    reader.done(first[1])
    waiting = []
    for value in range(2, 9):
        place = write(writer, value)
        if place is not None:
            waiting.append((value, place))
    assert len(waiting) == 4  # as many as there is room for
    assert all(set(reader.read(*place).tolist()) == {value} for value, place in waiting)
    reader.done(waiting[0][1][1])
    assert write(writer, 9) is not None
    assert all(set(reader.read(*place).tolist()) == {value} for value, place in waiting[1:])
