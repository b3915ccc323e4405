"""Decides before which launches a program's threads must wait for each other."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.program.work import Buffer
from trainer.engine.targets.cpu.lowering.launch import Launch


def barriers(launches: Sequence[Launch], offsets: dict[Buffer, int]) -> list[bool]:
    """Returns for each launch whether all earlier ones must end before it starts.

    Two launches conflict if one writes memory that the other reads or writes. Launches with a single task run in order
    on the calling thread and never wait for each other. Launches after a host call wait for it: if it fails, no later
    launch may have run.
    """
    flags: list[bool] = []
    read: list[tuple[object, int, int]] = []
    written: list[tuple[object, int, int]] = []
    read_alone: list[tuple[object, int, int]] = []
    written_alone: list[tuple[object, int, int]] = []
    after_host = False
    for launch in launches:
        reads = [_range(buffer, offsets) for buffer in launch.reads]
        writes = [_range(buffer, offsets) for buffer in launch.writes]
        wait = _overlap(reads, written) or _overlap(writes, written) or _overlap(writes, read)
        if not wait and launch.tasks > 1:
            wait = _overlap(reads, written_alone) or _overlap(writes, written_alone) or _overlap(writes, read_alone)
            wait = wait or after_host
        flags.append(wait)
        after_host = launch.work.kind == "host" or (after_host and not wait)
        if wait:
            read, written, read_alone, written_alone = [], [], [], []
        if launch.tasks > 1:
            read += reads
            written += writes
        else:
            read_alone += reads
            written_alone += writes
    return flags


def _range(buffer: Buffer, offsets: dict[Buffer, int]) -> tuple[object, int, int]:
    if buffer.in_arena:
        start = offsets[buffer]
        return "arena", start, start + buffer.nbytes
    if buffer.kept:
        return buffer, 0, buffer.nbytes
    return id(buffer.storage) if buffer.storage is not None else ("result", buffer.result), 0, buffer.nbytes


def _overlap(first: Sequence[tuple[object, int, int]], second: Sequence[tuple[object, int, int]]) -> bool:
    return any(a == b and x < v and u < y for a, x, y in first for b, u, v in second)
