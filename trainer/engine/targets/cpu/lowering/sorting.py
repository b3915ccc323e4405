"""Sorting: one task sorts a row that fits into scratch memory; many tasks sort longer rows, digit by digit."""

from __future__ import annotations

from dataclasses import replace

from trainer.engine.graph.dtypes import BY_NAME, DType, int32, int64
from trainer.engine.graph.storage import Layout
from trainer.engine.program.work import Buffer, View, Work
from trainer.engine.targets.cpu.kernels.digit_passes import CountDigits, DigitPass, MoveDigits, PlaceDigits
from trainer.engine.targets.cpu.kernels.sort import SortRows
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Coded, Routine
from trainer.engine.targets.ir.sort_keys import Keys

_SCRATCH = 3 << 20
"""Maximum bytes of a row's arrays for a single task, above which many tasks sort it; threads have 4 MiB."""

_LONE = 1 << 16
"""Minimum length for which many tasks sort an array of a single row, so that all threads take part."""


def expand_sort(expansion: Expansion, work: Work) -> None:
    """Adds the sort of each row: its sorted elements or their indices, all or the first of them."""
    (x,), (target,), call = work.reads, work.writes, work.spec
    if target.size == 0:
        return
    axis, places = call.attribute("axis"), call.operation.name != "sort"
    count = target.shape[axis]
    keys = Keys(x.dtype, call.attribute("descending"), not places)
    kernel = SortRows(keys, x.shape, axis, places, x.strides, target.strides, count)
    is_lone = kernel.method == "radix" and kernel.rows == 1 and kernel.length >= _LONE
    label = f"{work.label} {x.shape}"
    if not is_lone and kernel.scratch_bytes <= _SCRATCH:
        routine = replace(Routine.of(kernel, x, target), scratch=kernel.scratch_bytes)
        return expansion.add(replace(work, spec=routine, label=label))
    if count == kernel.length:
        return _expand_passes(expansion, x, target, keys, axis, label)
    everything = replace(_array(x.size, target.dtype, "order"), shape=x.shape, strides=_dense(x.shape))
    _expand_passes(expansion, x, everything, keys, axis, label)
    expansion.copy(replace(everything, shape=target.shape), target, work.label)


def _expand_passes(expansion: Expansion, x: View, target: View, keys: Keys, axis: int, label: str) -> None:
    places = not keys.signed_zeros
    first = DigitPass(keys, x.shape, axis, places, x.strides, target.strides, 0)
    key_dtype = _SAME_SIZE[keys.width // 8]
    source, order = x, None
    for number in range(first.passes):
        current = replace(first, number=number)
        counters, begins = (_array(first.counters, int32, name) for name in ("digits", "places"))
        _add(expansion, CountDigits(current), (source,), (counters,), label)
        placing = PlaceDigits(first.rows, first.chunks, first.digits.count)
        _add(expansion, placing, (counters,), (begins,), label)
        reads = (source, begins) if order is None else (source, begins, order)
        if current.is_last:
            writes: tuple[View, ...] = (target,)
        else:
            source = _array(x.size, key_dtype, "keys")
            order = _array(x.size, int32, "order") if places else None
            writes = (source,) if order is None else (source, order)
        moving = MoveDigits(current)
        _add(expansion, moving, reads, writes, label, moving.scratch_bytes)


_SAME_SIZE = {1: BY_NAME["uint8"], 2: BY_NAME["bfloat16"], 4: int32, 8: int64}
"""A dtype for each key size in bytes: only the size of its memory matters."""


def _add(
    expansion: Expansion, kernel: Coded, reads: tuple[View, ...], writes: tuple[View, ...], label: str, scratch: int = 0
) -> None:
    routine = replace(Routine.of(kernel, *reads, *writes), scratch=scratch)
    expansion.add(Work("order", routine, reads, writes, label))


def _array(size: int, dtype: DType, name: str) -> View:
    return View(Buffer(size, dtype, name), dtype, (size,), (1,))


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return Layout.row_major(len(shape)).strides(shape)
