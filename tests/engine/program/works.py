"""Items of work over whole buffers, made by hand or drawn at random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from trainer.engine.graph.dtypes import uint8
from trainer.engine.graph.storage import Storage
from trainer.engine.program.work import Buffer, KernelSource, View, Work, place_of


def buffer(size: int, *, storage: Storage | None = None, result: int | None = None) -> Buffer:
    return Buffer(size, uint8, "buffer", storage, result)


def work(
    reads: Iterable[Buffer],
    writes: Iterable[Buffer],
    label: str = "work",
    *,
    points: int = 4,
    code: KernelSource | None = None,
    in_place: Sequence[tuple[Buffer, Buffer]] = (),
) -> Work:
    """A loop that reads and writes whole buffers."""
    sides = (tuple(View(each, each.dtype, (each.size,), (1,)) for each in side) for side in (reads, writes))
    return Work("loop", None, *sides, label, (points,), code=code, in_place=tuple(in_place))


@st.composite
def programs(draw: DrawFn) -> list[Work]:
    """Items that read what earlier ones wrote, leaves and results; some are empty, some are too small to divide."""
    outside = [buffer(100, storage=Storage((100,), uint8)) for _ in range(2)] + [buffer(100, result=0)]
    written: list[Buffer] = []
    works = []
    for _ in range(draw(st.integers(1, 20))):
        fresh = [buffer(draw(st.sampled_from([0, 1, 100, 256, 1000, 5000])))] if draw(st.integers(0, 4)) else []
        again = draw(st.lists(st.sampled_from(written + outside), max_size=1))
        reads = draw(st.lists(st.sampled_from(written + outside), max_size=3, unique=True))
        written += fresh
        works.append(work(reads, fresh + again, points=draw(st.sampled_from([0, 1, 2, 8]))))
    return works


def is_single(each: Work) -> bool:
    """Whether an item of `programs` is too small to divide."""
    return each.points <= 1


def conflict(first: Work, second: Work) -> bool:
    """Whether one writes what the other touches."""
    writes, others = ({place_of(each) for each in item.targets} for item in (first, second))
    return bool(writes & touched(second) or touched(first) & others)


def touched(each: Work) -> set[object]:
    return {place_of(buffer) for buffer in (*each.sources, *each.targets)}
