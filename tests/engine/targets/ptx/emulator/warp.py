"""Instructions that the lanes of a warp execute together: shuffles, votes, reductions, and products of matrices.

A matrix product is rounded once, from float64; the hardware's order of summation is not documented.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.engine.targets.ptx.emulator import rounding
from tests.engine.targets.ptx.emulator.decode import Decoder, Execute, instruction
from tests.engine.targets.ptx.emulator.fault import Fault
from tests.engine.targets.ptx.emulator.machine import Lanes, Machine, spread
from tests.engine.targets.ptx.emulator.moves import warp_masks


def check_members(machine: Machine, lanes: Lanes, members: np.ndarray, name: str) -> None:
    """Exactly the lanes of a mask execute the instruction together."""
    here = warp_masks(machine, lanes, np.ones(1, bool))
    wrong = spread(members, lanes) != here
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        text = f"{name} for the lanes {int(spread(members, lanes)[place]):#x}, executed by {int(here[place]):#x}"
        raise Fault(f"divergent warp: {text}", int(lanes.numbers()[place]))


@instruction("shfl")
def _shfl(decoder: Decoder) -> Execute:
    decoder.only("sync", "up", "down", "bfly", "idx")
    mode = next(word for word in decoder.words if word in ("up", "down", "bfly", "idx"))
    target, second = decoder.target(0), decoder.target(decoder.code.second)
    value, count, limits, members = (decoder.source(number, "u32") for number in (1, 2, 3, 4))

    def execute(machine: Machine, lanes: Lanes) -> None:
        check_members(machine, lanes, members(machine, lanes), "shfl.sync")
        numbers = lanes.numbers()
        own, b, c = machine.lane_in_warp[numbers], count(machine, lanes) & 31, limits(machine, lanes)
        segment, clamp = c >> 8 & 31, c & 31
        lowest, highest = own & segment, (own & segment) | (clamp & ~segment & 31)
        if mode == "up":
            source = own - b.astype(np.int64)
            inside = source >= highest
        elif mode == "idx":
            source = lowest | (b & ~segment & 31)
            inside = source <= highest
        else:
            source = own + b if mode == "down" else own ^ b
            inside = source <= highest
        source = spread(np.where(inside, source, own), lanes)
        position = np.full(machine.count, -1)
        position[numbers] = np.arange(lanes.count)
        found = position[np.minimum(machine.warp_begin[numbers] + source, machine.count - 1)]
        lost = (found < 0) | (source >= machine.warp_size[numbers])
        if lost.any():
            raise Fault("shfl.sync reads a lane that takes no part", int(numbers[np.flatnonzero(lost)[0]]))
        target(machine, lanes, spread(value(machine, lanes), lanes)[found])
        second(machine, lanes, np.array(spread(inside, lanes)))

    return execute


@instruction("vote")
def _vote(decoder: Decoder) -> Execute:
    decoder.only("sync", "all", "any", "uni", "ballot")
    target, condition, members = decoder.target(0), decoder.condition(1), decoder.source(2, "u32")

    def execute(machine: Machine, lanes: Lanes) -> None:
        mask = members(machine, lanes)
        check_members(machine, lanes, mask, "vote.sync")
        holds = condition(machine, lanes)
        masks = warp_masks(machine, lanes, holds)
        if decoder.has("ballot"):
            target(machine, lanes, masks)
        elif decoder.has("any"):
            target(machine, lanes, masks != 0)
        elif decoder.has("all"):
            target(machine, lanes, masks == mask)
        else:
            target(machine, lanes, (masks == 0) | (masks == mask))

    return execute


@instruction("redux")
def _redux(decoder: Decoder) -> Execute:
    operations: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "add": lambda rows: rows.sum(0, dtype=rows.dtype),
        "min": lambda rows: rows.min(0),
        "max": lambda rows: rows.max(0),
        "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
    }  # fmt: skip
    decoder.only("sync", *operations)
    (kind,) = decoder.kinds
    function = next(operations[word] for word in decoder.words[1:] if word in operations)
    target, value, members = decoder.target(0), decoder.source(1, kind), decoder.source(2, "u32")

    def execute(machine: Machine, lanes: Lanes) -> None:
        check_members(machine, lanes, members(machine, lanes), "redux.sync")
        values, warps = spread(value(machine, lanes), lanes), machine.warp_number[lanes.numbers()]
        found = np.zeros(lanes.count, values.dtype)
        for warp in np.unique(warps):
            found[warps == warp] = function(values[warps == warp])
        target(machine, lanes, found)

    return execute


# Products of matrices. Where element i of a lane's fragment lies: (row, column), from the lane's group (lane / 4) and
# its place in the group (lane % 4), as the PTX manual has it.

_GROUP, _PLACE = np.arange(32)[:, None] // 4, np.arange(32)[:, None] % 4


def _fragment(
    elements: int, rows: Callable[[np.ndarray], np.ndarray], columns: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(elements)[None, :]
    return np.broadcast_to(rows(i), (32, elements)), np.broadcast_to(columns(i), (32, elements))


def _layouts(shape: str, bits: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Places of the elements of A, B, and of C and D."""
    result = _fragment(4, lambda i: _GROUP + 8 * (i // 2), lambda i: 2 * _PLACE + i % 2)
    k = int(shape.split("k")[1])
    if bits == 16:  # pairs of neighbors along k
        a = _fragment(k // 2, lambda i: _GROUP + 8 * (i // 2 % 2), lambda i: 2 * _PLACE + i % 2 + 8 * (i // 4))
        b = _fragment(k // 4, lambda i: 2 * _PLACE + i % 2 + 8 * (i // 2), lambda i: _GROUP + 0 * i)
    else:
        a = _fragment(k // 2, lambda i: _GROUP + 8 * (i % 2), lambda i: _PLACE + 4 * (i // 2))
        b = _fragment(k // 4, lambda i: _PLACE + 4 * i, lambda i: _GROUP + 0 * i)
    return a, b, result


_OPERANDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bf16": lambda bits: rounding.from_bfloat16(bits.view(np.uint16)),
    "f16": lambda bits: bits.view(np.float16).astype(np.float32),
    "tf32": lambda bits: (bits & np.uint32(0xFFFFE000)).view(np.float32),  # the hardware ignores the other bits
}
_SHAPES = {"bf16": ("m16n8k8", "m16n8k16"), "f16": ("m16n8k8", "m16n8k16"), "tf32": ("m16n8k4", "m16n8k8")}


@instruction("mma")
def _mma(decoder: Decoder) -> Execute:
    decoder.only("sync", "aligned", "row", "col", *(shape for shapes in _SHAPES.values() for shape in shapes))
    kinds, shape = decoder.kinds, next(word for word in decoder.words if word.startswith("m16"))
    kind = kinds[1]
    if (
        len(kinds) != 4
        or kinds[1] != kinds[2]
        or kind not in _SHAPES
        or shape not in _SHAPES[kind]
        or kinds[0] != kinds[3]
    ):
        raise decoder.refuse("this product of matrices")
    half_sum = kinds[0] == "f16"
    places = _layouts(shape, 32 if kind == "tf32" else 16)
    k = int(shape.split("k")[1])
    sources = [[decoder.source(item, "b32") for item in decoder.group(number)] for number in (1, 2, 3)]
    targets = [decoder.target(item) for item in decoder.group(0)]
    if [len(items) for items in sources] != [
        places[0][0].shape[1] // (1 if kind == "tf32" else 2),
        places[1][0].shape[1] // (1 if kind == "tf32" else 2),
        2 if half_sum else 4,
    ]:
        raise decoder.refuse("the number of registers")

    def matrix(
        machine: Machine, lanes: Lanes, which: int, size: tuple[int, int], convert: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        registers = np.stack([spread(source(machine, lanes), lanes) for source in sources[which]], -1)
        elements = convert(np.ascontiguousarray(registers)).reshape(-1, 32, places[which][0].shape[1])
        found = np.zeros((elements.shape[0], *size), np.float64)
        found[:, places[which][0], places[which][1]] = elements
        return found

    def execute(machine: Machine, lanes: Lanes) -> None:
        if not machine.whole_warps(lanes) or (machine.warp_size != 32).any():
            raise Fault("divergent warp: mma.sync by a part of a warp", int(lanes.numbers()[0]))
        a = matrix(machine, lanes, 0, (16, k), _OPERANDS[kind])
        b = matrix(machine, lanes, 1, (k, 8), _OPERANDS[kind])
        c = matrix(machine, lanes, 2, (16, 8), _OPERANDS["f16"] if half_sum else lambda bits: bits.view(np.float32))
        total = (a @ b + c).astype(np.float16 if half_sum else np.float32)
        elements = np.ascontiguousarray(total[:, places[2][0], places[2][1]].reshape(lanes.count, 4))
        registers = elements.view(np.uint32)
        for number, target in enumerate(targets):
            target(machine, lanes, registers[:, number].copy())

    return execute
