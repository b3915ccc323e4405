"""Loads, stores, atomic operations and asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.engine.targets.ptx.emulator import checked
from tests.engine.targets.ptx.emulator.decode import Decoder, Execute, Read, instruction
from tests.engine.targets.ptx.emulator.fault import Fault
from tests.engine.targets.ptx.emulator.kinds import KINDS, UNSIGNED
from tests.engine.targets.ptx.emulator.machine import Lanes, Machine, spread
from tests.engine.targets.ptx.emulator.parse import Address, Name, Number

_CACHED = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "global", "shared", "shared::cta", "local", "const",
    "param", "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "v2", "v4",
    "v8",
)  # fmt: skip
_ATOMIC = ("volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "cluster")


def loaded(
    machine: Machine, lanes: Lanes, space: str, addresses: np.ndarray, kind: np.dtype, count: int, is_atomic: bool
) -> list[np.ndarray]:
    """`count` neighboring elements at each address; single values where all lanes read the same place."""
    found = None if is_atomic else checked.load(machine, lanes, space, addresses, kind, count)
    if found is not None:
        return found
    size = kind.itemsize * count
    same = addresses.size == 1 and space not in ("shared", "local") and lanes.count > 1
    results = [np.zeros(1 if same else lanes.count, kind) for _ in range(count)]
    for region, part, chosen, places in machine.places(space, addresses, size, lanes):
        if same and region.name == "shared memory":
            results, same = [np.zeros(lanes.count, kind) for _ in range(count)], False
        region.check_read(places, size, part.numbers(), machine.clocks, is_atomic)
        for number, result in enumerate(results):
            if same:
                result[:] = region.load(places[:1] + number * kind.itemsize, kind)
            else:
                result[chosen] = region.load(places + number * kind.itemsize, kind)
    return results


def stored(
    machine: Machine, lanes: Lanes, space: str, addresses: np.ndarray, values: Sequence[np.ndarray],
    is_atomic: bool = False,
) -> None:  # fmt: skip
    """Store neighboring elements at each address."""
    if not is_atomic and checked.store(machine, lanes, space, addresses, values):
        return
    itemsize = values[0].itemsize
    values, size = [spread(value, lanes) for value in values], itemsize * len(values)
    for region, part, chosen, places in machine.places(space, addresses, size, lanes):
        region.check_write(places, size, part.numbers(), machine.clocks, is_atomic)
        for number, value in enumerate(values):
            region.store(places + number * itemsize, value[chosen])


def _count(decoder: Decoder) -> int:
    return next((int(word[1:]) for word in decoder.words if word in ("v2", "v4", "v8")), 1)


@instruction("ld", "ldu")
def _ld(decoder: Decoder) -> Execute:
    decoder.only(*_CACHED, *_ATOMIC)
    (kind,) = decoder.kinds
    dtype, targets, space, count = (
        KINDS[kind],
        [decoder.target(item) for item in decoder.group(0)],
        decoder.space,
        _count(decoder),
    )
    if space == "param":
        return _parameter(decoder, dtype, count)
    address, is_atomic = decoder.address(1), decoder.has(*_ATOMIC)

    def execute(machine: Machine, lanes: Lanes) -> None:
        values = loaded(machine, lanes, space, address(machine, lanes), dtype, count, is_atomic)
        for target, value in zip(targets, values, strict=True):
            target(machine, lanes, value)

    return execute


def _parameter(decoder: Decoder, dtype: np.dtype, count: int) -> Execute:
    targets, place = [decoder.target(item) for item in decoder.group(0)], decoder.operands[1]
    if not isinstance(place, Address) or not isinstance(place.base, Name):
        raise decoder.refuse("a parameter is expected")
    name, offset = place.base.name, place.offset

    def execute(machine: Machine, lanes: Lanes) -> None:
        content = machine.parameters[name]
        end = offset + count * dtype.itemsize
        if offset < 0 or end > content.size:
            raise Fault(f"out of bounds: byte {end - 1} of the parameter {name}, which has {content.size}")
        values = content[offset:end].copy().view(dtype)
        for number, target in enumerate(targets):
            target(machine, lanes, values[number : number + 1])

    return execute


@instruction("st")
def _st(decoder: Decoder) -> Execute:
    decoder.only(*_CACHED, *_ATOMIC)
    (kind,) = decoder.kinds
    dtype, space = KINDS[kind], decoder.space
    sources, address = [decoder.source(item, dtype) for item in decoder.group(1)], decoder.address(0)
    is_atomic = decoder.has(*_ATOMIC)

    def execute(machine: Machine, lanes: Lanes) -> None:
        values = [source(machine, lanes) for source in sources]
        stored(machine, lanes, space, address(machine, lanes), values, is_atomic)

    return execute


_UPDATES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "min": np.minimum,
    "max": np.maximum, "exch": lambda old, new: new,
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1).astype(old.dtype),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype),
}  # fmt: skip


@instruction("atom", "red")
def _atom(decoder: Decoder) -> Execute:
    """Lanes that update one place take turns, in an order drawn from the seed."""
    decoder.only(*_CACHED, *_ATOMIC, *_UPDATES, "cas", "noftz")
    (kind,), first = decoder.kinds, decoder.name == "atom"
    dtype, space, address = KINDS[kind], decoder.space, decoder.address(int(first))
    target = decoder.target(0) if first else None
    sources = [decoder.source(number, kind) for number in range(1 + first, len(decoder.operands))]
    update = next((_UPDATES[word] for word in decoder.words[1:] if word in _UPDATES), None)

    def changed(old: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        return np.where(old == values[0], values[1], old) if update is None else update(old, values[0])

    def execute(machine: Machine, lanes: Lanes) -> None:
        values = [spread(source(machine, lanes), lanes) for source in sources]
        results = np.zeros(lanes.count, dtype)
        for region, part, chosen, places in machine.places(space, address(machine, lanes), dtype.itemsize, lanes):
            numbers = part.numbers()
            region.check_read(places, dtype.itemsize, numbers, machine.clocks, True)
            region.check_write(places, dtype.itemsize, numbers, machine.clocks, True)
            waiting = machine.random.permutation(len(places))
            while waiting.size:  # one lane for each place at a time
                _, turn = np.unique(places[waiting], return_index=True)
                now = waiting[turn]
                old = region.load(places[now], dtype)
                results[chosen[now]] = old
                region.store(places[now], changed(old, [value[chosen[now]] for value in values]))
                waiting = np.delete(waiting, turn)
        if target is not None:
            target(machine, lanes, results)

    return execute


@dataclass
class Copy:
    """An asynchronous copy under way: for each of its lanes an address in shared memory, each word, and its group."""

    lanes: np.ndarray
    addresses: np.ndarray
    content: list[np.ndarray]
    groups: np.ndarray

    def of(self, chosen: np.ndarray) -> Copy:
        """The part of some lanes."""
        content = [words[chosen] for words in self.content]
        return Copy(self.lanes[chosen], self.addresses[chosen], content, self.groups[chosen])


class Copies:
    """The asynchronous copies of a machine, and how many groups each lane has committed."""

    def __init__(self, machine: Machine) -> None:
        self.committed = np.zeros(machine.count, np.int64)
        self.under_way: list[Copy] = []

    def arrive(self, machine: Machine, lanes: Lanes, newest: int) -> None:
        """Store what lanes copied in all but their `newest` groups."""
        waits = np.zeros(machine.count, bool)
        waits[lanes.numbers()] = True
        remaining = []
        for copy in self.under_way:
            done = waits[copy.lanes] & (copy.groups < self.committed[copy.lanes] - newest)
            if done.any():
                part = copy if done.all() else copy.of(done)
                stored(machine, Lanes(len(part.lanes), part.lanes), "shared", part.addresses, part.content)
            if not done.all():
                remaining.append(copy.of(~done))
        self.under_way = remaining


def copies_of(machine: Machine) -> Copies:
    """The asynchronous copies of a machine."""
    if machine.copies is None:
        machine.copies = Copies(machine)
    found: Copies = machine.copies
    return found


@instruction("cp")
def _cp_async(decoder: Decoder) -> Execute:
    if decoder.words[1] != "async" or decoder.has("bulk", "mbarrier"):
        raise decoder.refuse()
    if decoder.has("commit_group"):
        return _commit
    if decoder.has("wait_group", "wait_all"):
        newest = 0 if decoder.has("wait_all") else decoder.operands[0]
        return _waits(newest.value if isinstance(newest, Number) else 0, commits=decoder.has("wait_all"))
    decoder.only("async", "ca", "cg", "shared", "shared::cta", "global", "L2::64B", "L2::128B", "L2::256B")
    size = decoder.operands[2]
    if not isinstance(size, Number) or size.value not in (4, 8, 16) or (decoder.has("cg") and size.value != 16):
        raise decoder.refuse("4, 8 or 16 bytes are expected, with .cg 16")
    target, source = decoder.address(0), decoder.address(1)
    length = decoder.source(3, "u32") if len(decoder.operands) > 3 else None
    return _copied(target, source, size.value, length)


def _copied(target: Read, source: Read, size: int, length: Read | None) -> Execute:
    """Bytes behind `length` arrive as zeros, and are not read."""
    unit = KINDS["b32"]

    def execute(machine: Machine, lanes: Lanes) -> None:
        addresses = spread(source(machine, lanes), lanes)
        kept = np.full(1, size) if length is None else length(machine, lanes).astype(np.int64)
        numbers = lanes.numbers()
        if ((addresses % size) != 0).any():
            raise Fault(
                f"an asynchronous copy of {size} bytes from an address that is no multiple of it", int(numbers[0])
            )
        if (kept == size).all():
            found = loaded(machine, lanes, "global", addresses, unit, size // 4, False)
            content = [np.array(spread(each, lanes)) for each in found]
        else:
            content = [np.zeros(lanes.count, unit) for _ in range(size // 4)]
            kept = spread(kept, lanes)
            for words in range(1, size // 4 + 1):
                some = np.flatnonzero(kept // 4 == words)
                part, count = Lanes(len(some), numbers[some]), words if words & words - 1 == 0 else 1
                for start in range(0, words, count) if some.size else ():
                    found = loaded(machine, part, "global", addresses[some] + 4 * start, unit, count, False)
                    for number, value in enumerate(found, start):
                        content[number][some] = value
        targets = np.array(spread(target(machine, lanes), lanes))
        # the copy may store at any time from here
        if not checked.claim(machine, lanes, "shared", targets, size):
            for region, part, _, places in machine.places("shared", targets, size, lanes):
                region.check_write(places, size, part.numbers(), machine.clocks, False)
                region.forget(places, size)
        copies = copies_of(machine)
        copies.under_way.append(Copy(numbers, targets, content, copies.committed[numbers]))

    return execute


def _commit(machine: Machine, lanes: Lanes) -> None:
    copies_of(machine).committed[lanes.numbers()] += 1


def _waits(newest: int, *, commits: bool) -> Execute:
    def execute(machine: Machine, lanes: Lanes) -> None:
        if commits:
            _commit(machine, lanes)
        copies_of(machine).arrive(machine, lanes, newest)

    return execute


@instruction("ldmatrix")
def _ldmatrix(decoder: Decoder) -> Execute:
    """8x8 matrices of 16-bit elements: lane i of a warp gives the address of row i % 8 of matrix i / 8."""
    decoder.only("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta")
    targets, address, turned = (
        [decoder.target(item) for item in decoder.group(0)],
        decoder.address(1),
        decoder.has("trans"),
    )

    def execute(machine: Machine, lanes: Lanes) -> None:
        if not machine.whole_warps(lanes) or (machine.warp_size != 32).any():
            raise Fault("ldmatrix by a part of a warp", int(lanes.numbers()[0]))
        count = len(targets)
        addresses = spread(address(machine, lanes), lanes).reshape(-1, 32)[:, : 8 * count]
        numbers = lanes.numbers().reshape(-1, 32)[:, : 8 * count]
        part = Lanes(numbers.size, numbers.ravel())
        rows = loaded(machine, part, "shared", addresses.ravel(), UNSIGNED[2], 8, False)
        matrices = np.stack(rows, -1).reshape(-1, count, 8, 8)  # warp, matrix, row, column
        matrices = matrices.swapaxes(-1, -2) if turned else matrices
        pairs = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, 32)
        for number, target in enumerate(targets):
            target(machine, lanes, pairs[:, number].ravel().copy())

    return execute


@instruction("prefetch", "prefetchu", "membar", "fence", "nanosleep", "griddepcontrol")
def _nothing(decoder: Decoder) -> Execute:
    return lambda machine, lanes: None
