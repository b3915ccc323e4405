"""Loads and stores as native code, for accesses that are right: what is wrong, or unusual, is left to NumPy.

A function looks at every lane first, by the rules of `memory`, and changes nothing unless all accesses are inside of
one region, aligned, written before they are read, and in order. So errors have one source, which is `memory`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.engine.targets.ptx.emulator.clocks import WARP
from tests.engine.targets.ptx.emulator.machine import LOCAL, SHARED, WINDOW, Lanes, Machine
from tests.engine.targets.ptx.emulator.memory import UNTOUCHED, UNWRITTEN, Region
from trainer.engine.targets.cpu import native
from trainer.engine.targets.ir.writer import Writer

MOST = 8
"""Elements of an access."""

_WORDS = (
    "addresses", "address_step", "lanes", "index", "size", "units", "unit_shift", "window", "limit", "owner", "owned",
    "data", "ordered", "writer", "wrote_at", "is_atomic", "reader0", "reader1", "read_at0", "read_at1",
    "reads_atomic0", "reads_atomic1", "elsewhere0", "elsewhere1", "threads", "first", "warp_of", "now", "block_of",
    "warps", "block", "count", "mark", "done", "data0",
)  # fmt: skip
"""Arguments of the functions, one word each: numbers, and addresses of arrays. From `data0` on there are the addresses
of the elements' arrays, then their steps from lane to lane. `mark`, unless it is 0, takes the writer's place. `done`
becomes 1, or 2 where lanes write to one place.
"""

_PLACE = {word: number for number, word in enumerate(_WORDS)}
_LENGTH = len(_WORDS) - 1 + 2 * MOST


class _Access:
    """A function while it is written."""

    def __init__(self, itemsize: int, *, writes: bool) -> None:
        self.w, self.itemsize, self.writes = Writer(), itemsize, writes
        self.words: dict[str, str] = {}

    def word(self, name: str) -> str:
        """A number among the arguments."""
        return self.words[name]

    def array(self, name: str, place: str, kind: str) -> str:
        """The address of an element of an array among the arguments."""
        base = self.words[f"{name} address"]
        return self.w.value(f"getelementptr {kind}, ptr {base}, i64 {place}")

    def at(self, name: str, place: str, kind: str) -> str:
        return self.w.value(f"load {kind}, ptr {self.array(name, place, kind)}")

    def put(self, name: str, place: str, kind: str, value: str) -> None:
        self.w.emit(f"store {kind} {value}, ptr {self.array(name, place, kind)}")

    def text(self, name: str) -> str:
        w = self.w
        for word, number in _PLACE.items():
            self.words[word] = w.argument(number, "i64")
            self.words[f"{word} address"] = w.argument(number)
        self._each_lane(self._checked)
        with w.when(w.value(f"icmp ne i64 {self.word('ordered')}, 0")):
            if not self.writes:
                self._each_lane(self._noted)
        self._each_lane(self._moved)
        w.emit(f"store i64 1, ptr {self._done}")
        if self.writes:
            is_ordered = w.value(f"icmp ne i64 {self.word('ordered')}, 0")
            is_plain = w.value(f"icmp eq i64 {self.word('mark')}, 0")
            with w.when(w.value(f"and i1 {is_ordered}, {is_plain}")):
                self._each_lane(self._alone)
        w.emit("ret void")
        w.label("refused")
        return w.module(name)

    @property
    def _done(self) -> str:
        return self.w.value(f"getelementptr i64, ptr %arguments, i64 {_PLACE['done']}")

    def _each_lane(self, write: Callable[[str, str], None]) -> None:
        """Number among the lanes that take part, and the lane."""
        w = self.w
        with w.loop("0", self.word("lanes")) as loop:
            number = str(loop.index)
            listed = w.value(f"icmp ne i64 {self.word('index')}, 0")
            base = w.value(
                f"select i1 {listed}, ptr {self.words['index address']}, ptr {self.words['addresses address']}"
            )
            place = w.value(f"select i1 {listed}, i64 {number}, i64 0")
            found = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr {base}, i64 {place}')}")
            write(number, w.value(f"select i1 {listed}, i64 {found}, i64 {number}"))

    def _require(self, condition: str) -> None:
        after = self.w.fresh("right")
        self.w.branch_if(condition, after, "refused")
        self.w.label(after)

    def _address(self, number: str) -> str:
        return self.at("addresses", str(self.w.multiply(number, self.word("address_step"))), "i64")

    def _place_of(self, number: str, lane: str) -> str:
        """The byte in the region."""
        w = self.w
        offset = w.value(f"and i64 {self._address(number)}, {(1 << WINDOW) - 1}")
        return str(w.add(offset, w.multiply(self.at("owner", lane, "i64"), self.word("owned"))))

    def _first_unit(self, number: str, lane: str) -> str:
        return self.w.value(f"lshr i64 {self._place_of(number, lane)}, {self.word('unit_shift')}")

    def _checked(self, number: str, lane: str) -> None:
        w = self.w
        address = self._address(number)
        rest = w.value(f"and i64 {address}, {w.subtract(self.word('size'), 1)}")
        self._require(w.value(f"icmp eq i64 {rest}, 0"))
        window = w.value(f"lshr i64 {address}, {WINDOW}")
        self._require(w.value(f"icmp eq i64 {window}, {self.word('window')}"))
        offset = w.value(f"and i64 {address}, {(1 << WINDOW) - 1}")
        self._require(w.value(f"icmp ule i64 {w.add(offset, self.word('size'))}, {self.word('limit')}"))
        first = self._first_unit(number, lane)
        with w.loop("0", self.word("units")) as units:
            unit = str(w.add(first, units.index))
            writer = self.at("writer", unit, "i64")
            if not self.writes:
                self._require(w.value(f"icmp ne i64 {writer}, {UNWRITTEN}"))
            with w.when(w.value(f"icmp ne i64 {self.word('ordered')}, 0")):
                self._require_before(lane, writer, self.at("wrote_at", unit, "i32"))
                if self.writes:
                    for which in range(2):
                        reader = self.at(f"reader{which}", unit, "i64")
                        self._require_before(lane, reader, self.at(f"read_at{which}", unit, "i32"))
                    for which in range(2):
                        other = self.at(f"elsewhere{which}", unit, "i64")
                        nobody = w.value(f"icmp slt i64 {other}, 0")
                        self._require(w.value(f"or i1 {nobody}, {self._in_block(self._in_own(other, lane))}"))

    def _in_own(self, thread: str, lane: str) -> str:
        """The number of a thread in the lane's block, if it is in it."""
        return str(self.w.subtract(thread, self.at("first", lane, "i64")))

    def _in_block(self, number: str) -> str:
        return self.w.value(f"icmp ult i64 {number}, {self.word('block')}")

    def _clock(self, lane: str, warp: str) -> str:
        """The time of a warp of the lane's block as the lane's warp knows it."""
        w, warps = self.w, self.word("warps")
        row = w.add(w.multiply(self.at("block_of", lane, "i64"), warps), self.at("warp_of", lane, "i64"))
        return self.at("now", str(w.add(w.multiply(row, warps), warp)), "i32")

    def _require_before(self, lane: str, other: str, stamp: str) -> None:
        """An access of another thread is before what the lane does now (`Clocks.is_before`)."""
        w, own = self.w, self.at("threads", lane, "i64")
        is_other = w.value(f"icmp ne i64 {other}, {own}")
        is_some = w.value(f"icmp sge i64 {other}, 0")
        with w.when(w.value(f"and i1 {is_other}, {is_some}")):
            number = self._in_own(other, lane)
            self._require(self._in_block(number))
            warp = w.value(f"udiv i64 {number}, {WARP}")
            same = w.value(f"icmp eq i64 {warp}, {self.at('warp_of', lane, 'i64')}")
            late = w.value(f"add i32 {stamp}, {w.value(f'zext i1 {same} to i32')}")
            self._require(w.value(f"icmp sge i32 {self._clock(lane, warp)}, {late}"))

    def _noted(self, number: str, lane: str) -> None:
        """Remember a read: the last two readers, and the first two of different blocks."""
        w, own = self.w, self.at("threads", lane, "i64")
        stamp = self._clock(lane, self.at("warp_of", lane, "i64"))
        first = self._first_unit(number, lane)
        with w.loop("0", self.word("units")) as units:
            unit = str(w.add(first, units.index))
            last = self.at("reader0", unit, "i64")
            is_some = w.value(f"icmp sge i64 {last}, 0")
            with w.when(w.value(f"and i1 {is_some}, {w.value(f'icmp ne i64 {last}, {own}')}")):
                for name, kind in (("reader", "i64"), ("read_at", "i32"), ("reads_atomic", "i8")):
                    self.put(f"{name}1", unit, kind, self.at(f"{name}0", unit, kind))
            for name, kind, value in (
                ("reader0", "i64", own),
                ("read_at0", "i32", stamp),
                ("reads_atomic0", "i8", "0"),
            ):
                self.put(name, unit, kind, value)
            known = self.at("elsewhere0", unit, "i64")
            is_new = w.value(f"icmp slt i64 {known}, 0")
            self.put("elsewhere0", unit, "i64", w.value(f"select i1 {is_new}, i64 {own}, i64 {known}"))
            second = self.at("elsewhere1", unit, "i64")
            is_known = w.value(f"or i1 {is_new}, {self._in_block(self._in_own(known, lane))}")
            is_free = w.value(f"icmp slt i64 {second}, 0")
            is_second = w.value(f"select i1 {is_known}, i1 false, i1 {is_free}")
            self.put("elsewhere1", unit, "i64", w.value(f"select i1 {is_second}, i64 {own}, i64 {second}"))

    def _moved(self, number: str, lane: str) -> None:
        """Copy the elements; a write is remembered, too."""
        w, kind = self.w, f"i{8 * self.itemsize}"
        if self.writes:
            self._claimed(number, lane)
        place = self._place_of(number, lane)
        with w.loop("0", self.word("count")) as elements:
            item = str(elements.index)
            byte = w.add(place, w.multiply(item, self.itemsize))
            inside = w.value(f"getelementptr i8, ptr {self.words['data address']}, i64 {byte}")
            slot = w.value(f"getelementptr i64, ptr %arguments, i64 {w.add(item, _PLACE['data0'])}")
            step = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr {slot}, i64 {MOST}')}")
            outside = w.value(
                f"getelementptr {kind}, ptr {w.value(f'load ptr, ptr {slot}')}, i64 {w.multiply(number, step)}"
            )
            source, target = (outside, inside) if self.writes else (inside, outside)
            w.emit(f"store {kind} {w.value(f'load {kind}, ptr {source}, align 1')}, ptr {target}, align 1")

    def _claimed(self, number: str, lane: str) -> None:
        w = self.w
        first, own = self._first_unit(number, lane), self.at("threads", lane, "i64")
        is_ordered = w.value(f"icmp ne i64 {self.word('ordered')}, 0")
        own = w.value(f"select i1 {is_ordered}, i64 {own}, i64 {UNTOUCHED}")
        is_plain = w.value(f"icmp eq i64 {self.word('mark')}, 0")
        own = w.value(f"select i1 {is_plain}, i64 {own}, i64 {self.word('mark')}")
        with w.loop("0", self.word("units")) as units:
            unit = str(w.add(first, units.index))
            self.put("writer", unit, "i64", own)
            with w.when(is_ordered):
                self.put("wrote_at", unit, "i32", self._clock(lane, self.at("warp_of", lane, "i64")))
                self.put("is_atomic", unit, "i8", "0")
                for name in ("reader0", "reader1", "elsewhere0", "elsewhere1"):
                    self.put(name, unit, "i64", str(UNTOUCHED))

    def _alone(self, number: str, lane: str) -> None:
        """Tell the caller where another lane has written at the same time."""
        w = self.w
        first, own = self._first_unit(number, lane), self.at("threads", lane, "i64")
        with w.loop("0", self.word("units")) as units:
            writer = self.at("writer", str(w.add(first, units.index)), "i64")
            with w.when(w.value(f"icmp ne i64 {writer}, {own}")):
                w.emit(f"store i64 2, ptr {self._done}")


@functools.cache
def _functions() -> dict[tuple[int, bool], Any]:
    """By the size of elements, and whether it writes."""
    texts = {
        f"access_{size}_{int(writes)}": _Access(size, writes=writes)
        for size in (1, 2, 4, 8)
        for writes in (False, True)
    }
    objects = {name: native.compile_object(access.text(name)) for name, access in texts.items()}
    library = native.link(objects, "accesses")
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
    found = {(access.itemsize, access.writes): kind(library[name]) for name, access in texts.items()}
    found[0, False] = library  # which holds the code
    return found


def _pointer(values: np.ndarray) -> int:
    return int(values.__array_interface__["data"][0])


def _fixed(machine: Machine, number: int, region: Region) -> np.ndarray:
    """The arguments that are the same for each access to a region."""
    known = machine.arguments
    if number not in known:
        clocks, words = machine.clocks, np.zeros(_LENGTH, np.int64)
        arrays: dict[str, np.ndarray] = {
            "data": region.data, "writer": region.writer, "threads": clocks.thread_numbers, "first": clocks.first,
            "warp_of": clocks.warp_of,
            "now": clocks.now, "block_of": clocks.block_of, "owner": clocks.block_of,
        }  # fmt: skip
        limit, owned = region.data.size, 0
        if number == SHARED:
            limit = owned = machine.shared_bytes
        elif number == LOCAL:
            limit = owned = machine.local_bytes
            arrays["owner"] = machine.lane_numbers
        ordered = not region.private and region.is_writable
        if ordered:
            arrays |= {"wrote_at": region.wrote_at, "is_atomic": region.is_atomic}
            for which in range(2):
                arrays |= {
                    f"reader{which}": region.readers[which], f"read_at{which}": region.read_at[which],
                    f"reads_atomic{which}": region.reads_atomic[which], f"elsewhere{which}": region.elsewhere[which],
                }  # fmt: skip
        numbers = {
            "unit_shift": region.unit.bit_length() - 1, "limit": limit, "owned": owned, "ordered": int(ordered),
            "warps": clocks.warps,
            "block": clocks.size, "window": 0 if number in (SHARED, LOCAL) else number,
        }  # fmt: skip
        for name, array in arrays.items():
            words[_PLACE[name]] = _pointer(array)
        for name, value in numbers.items():
            words[_PLACE[name]] = value
        known[number] = words
    return known[number]


def _access(
    machine: Machine, lanes: Lanes, space: str, addresses: np.ndarray, size: int, itemsize: int,
    data: Sequence[np.ndarray], *, writes: bool, mark: int = 0,
) -> int:  # fmt: skip
    """0: nothing is done. 1: it is done. 2: as 1, but lanes wrote to the same place."""
    number = {"shared": SHARED, "local": LOCAL}.get(space) or int(addresses[0]) >> WINDOW
    region = machine.regions.get(number)
    if region is None or not lanes.count or len(data) > MOST or (writes and not region.is_writable):
        return 0
    addresses = np.ascontiguousarray(addresses, np.int64)
    words = _fixed(machine, number, region).copy()
    words[_PLACE["addresses"]], words[_PLACE["address_step"]] = _pointer(addresses), int(addresses.size > 1)
    words[_PLACE["lanes"]] = lanes.count
    index = None if lanes.index is None else np.ascontiguousarray(lanes.index, np.int64)
    words[_PLACE["index"]] = 0 if index is None else _pointer(index)
    words[_PLACE["size"]], words[_PLACE["units"]] = size, max(1, -(-size // region.unit))
    words[_PLACE["count"]], words[_PLACE["mark"]] = len(data), mark
    for place, values in enumerate(data, _PLACE["data0"]):
        words[place], words[place + MOST] = _pointer(values), int(values.size > 1)
    _functions()[itemsize, writes](_pointer(words), 0)
    return int(words[_PLACE["done"]])


def load(
    machine: Machine, lanes: Lanes, space: str, addresses: np.ndarray, kind: np.dtype, count: int
) -> list[np.ndarray] | None:
    """`count` neighbors at each address, as `access.loaded` gives them; None where that must look."""
    is_alike = addresses.size == 1 and space not in ("shared", "local") and lanes.count > 1
    results = [np.empty(1 if is_alike else lanes.count, kind) for _ in range(count)]
    size = kind.itemsize * count
    return results if _access(machine, lanes, space, addresses, size, kind.itemsize, results, writes=False) else None


def store(machine: Machine, lanes: Lanes, space: str, addresses: np.ndarray, values: Sequence[np.ndarray]) -> bool:
    """Store neighbors at each address. False where that needs another look."""
    kept = [np.ascontiguousarray(value) for value in values]
    itemsize = kept[0].itemsize
    return _access(machine, lanes, space, addresses, itemsize * len(kept), itemsize, kept, writes=True) == 1


def claim(machine: Machine, lanes: Lanes, space: str, addresses: np.ndarray, size: int) -> bool:
    """Mark `size` bytes at each address as unwritten, as if they were written now. False as for `store`."""
    return _access(machine, lanes, space, addresses, size, 1, (), writes=True, mark=UNWRITTEN) == 1
