"""Moves, comparisons, selections, and addresses of one space as those of another."""

from __future__ import annotations

import numpy as np

from tests.engine.targets.ptx.emulator import rounding
from tests.engine.targets.ptx.emulator.decode import Decoder, Execute, instruction
from tests.engine.targets.ptx.emulator.integers import computed
from tests.engine.targets.ptx.emulator.kinds import FLOATS, UNSIGNED
from tests.engine.targets.ptx.emulator.machine import LOCAL, SHARED, WINDOW, Lanes, Machine, spread
from tests.engine.targets.ptx.emulator.parse import Group


@instruction("mov")
def _mov(decoder: Decoder) -> Execute:
    decoder.only()
    (kind,) = decoder.kinds
    if kind == "pred":
        return computed(decoder, np.array, decoder.condition(1))
    if isinstance(decoder.operands[1], Group):
        return _packed(decoder, kind)
    if isinstance(decoder.operands[0], Group):
        return _unpacked(decoder, kind)
    return computed(decoder, np.array, decoder.source(1, kind))


def _packed(decoder: Decoder, kind: str) -> Execute:
    items, target = decoder.group(1), decoder.target(0)
    bits = int(kind[1:]) // len(items)
    sources = [decoder.source(item, np.dtype(f"u{bits // 8}")) for item in items]
    wide = UNSIGNED[int(kind[1:]) // 8]

    def execute(machine: Machine, lanes: Lanes) -> None:
        total = np.zeros(1, wide)
        for place, source in enumerate(sources):
            total = total | source(machine, lanes).astype(wide) << wide.type(bits * place)
        target(machine, lanes, total)

    return execute


def _unpacked(decoder: Decoder, kind: str) -> Execute:
    items = decoder.group(0)
    bits = int(kind[1:]) // len(items)
    source, targets = decoder.source(1, kind), [decoder.target(item) for item in items]
    narrow = UNSIGNED[bits // 8]

    def execute(machine: Machine, lanes: Lanes) -> None:
        value = source(machine, lanes)
        for place, target in enumerate(targets):
            target(machine, lanes, (value >> value.dtype.type(bits * place)).astype(narrow))

    return execute


_INTEGER = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_COMBINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_FLOAT = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def _compared(word: str, kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Ordered comparisons do not hold where an operand is NaN, those that end with u do."""
    if kind == "bf16":
        a, b = rounding.from_bfloat16(a), rounding.from_bfloat16(b)
    if kind not in FLOATS:
        return np.asarray(_INTEGER[word](a, b))
    unordered = np.isnan(a) | np.isnan(b)
    if word in ("num", "nan"):
        return unordered if word == "nan" else ~unordered
    found = _INTEGER[word[:2]](a, b)
    return found | unordered if word.endswith("u") else found & ~unordered


@instruction("setp")
def _setp(decoder: Decoder) -> Execute:
    (kind,) = decoder.kinds
    decoder.only("ftz", *_COMBINED, *_FLOAT, *_INTEGER)
    word, join = decoder.words[1], next((each for each in decoder.words[2:] if each in _COMBINED), None)
    a, b, target = decoder.source(1, kind), decoder.source(2, kind), decoder.target(0)
    other = decoder.condition(3) if join else None
    second = decoder.target(decoder.code.second) if decoder.code.second else None
    flushes = decoder.has("ftz")

    def execute(machine: Machine, lanes: Lanes) -> None:
        x, y = a(machine, lanes), b(machine, lanes)
        if flushes:
            x, y = rounding.flushed(x), rounding.flushed(y)
        found = _compared(word, kind, x, y)
        results = [found, ~found]
        if other is not None and join is not None:
            held = other(machine, lanes)
            results = [_COMBINED[join](each, held) for each in results]
        target(machine, lanes, results[0])
        if second is not None:
            second(machine, lanes, results[1])

    return execute


@instruction("selp")
def _selp(decoder: Decoder) -> Execute:
    decoder.only()
    (kind,) = decoder.kinds
    a, b, condition = decoder.source(1, kind), decoder.source(2, kind), decoder.condition(3)
    return computed(decoder, lambda x, y, c: np.where(c, x, y), a, b, condition)


@instruction("cvta")
def _cvta(decoder: Decoder) -> Execute:
    """A generic address of global memory is the same number; one of shared memory is in a window of its own."""
    decoder.only("to", "global", "shared", "local", "const", "param")
    window = {"shared": SHARED, "local": LOCAL}.get(decoder.space, 0) << WINDOW

    def moved(address: np.ndarray) -> np.ndarray:
        return np.where(address >= window, address - window, address) if decoder.has("to") else address + window

    return computed(decoder, moved, decoder.source(1, decoder.kinds[-1]))


@instruction("activemask")
def _active(decoder: Decoder) -> Execute:
    target = decoder.target(0)

    def execute(machine: Machine, lanes: Lanes) -> None:
        target(machine, lanes, warp_masks(machine, lanes, np.ones(1, bool)))

    return execute


def warp_masks(machine: Machine, lanes: Lanes, mask: np.ndarray) -> np.ndarray:
    """For each lane the lanes of its warp where a mask of the executing lanes holds, as bits."""
    numbers = lanes.numbers()
    bits = np.where(spread(mask, lanes), np.int64(1) << machine.lane_in_warp[numbers], 0)
    totals = np.bincount(machine.warp_number[numbers], bits.astype(np.float64))  # sums of 32 bits are exact
    return totals[machine.warp_number[numbers]].astype(np.uint32)
