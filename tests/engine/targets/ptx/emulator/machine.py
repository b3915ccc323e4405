"""What executes: the lanes of a chunk of blocks, their registers, and the spaces of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.engine.targets.ptx.emulator.clocks import WARP, Clocks
from tests.engine.targets.ptx.emulator.fault import Fault
from tests.engine.targets.ptx.emulator.kinds import UNSIGNED
from tests.engine.targets.ptx.emulator.memory import Region

WINDOW = 40
"""A generic address is the number of its region, shifted by this, and an offset of bytes."""

SHARED, LOCAL = 1 << 20, 1 << 21
"""Numbers of the regions of shared and local memory; buffers and constants are numbered from 1."""

POISON = 0xA5
"""Every byte of a register that nobody has written."""


@dataclass(frozen=True)
class Lanes:
    """The lanes that execute an instruction: all, or those of `index`."""

    count: int
    index: np.ndarray | None = None

    def numbers(self) -> np.ndarray:
        return np.arange(self.count) if self.index is None else self.index

    def where(self, mask: np.ndarray) -> Lanes:
        """Those of the lanes where a mask of them, or of all alike, holds."""
        if mask.size == 1:
            mask = np.broadcast_to(mask, self.count)
        if mask.all():
            return self
        numbers = self.numbers()[mask]
        return Lanes(len(numbers), numbers)


def spread(values: np.ndarray, lanes: Lanes) -> np.ndarray:
    """A value for each lane, where all may have one."""
    return values if values.size == lanes.count else np.broadcast_to(values, lanes.count)


class Machine:
    """A chunk of blocks. A register holds one value for each lane, or a single one for all of them."""

    def __init__(
        self, numbers: np.ndarray, grid: Sequence[int], block: Sequence[int], registers: Sequence[int],
        regions: Mapping[int, Region], names: Mapping[str, int], parameters: Mapping[str, np.ndarray],
        shared: tuple[int, int], local: tuple[int, int], seed: int, checks_races: bool = True,
    ) -> None:  # fmt: skip
        threads = int(np.prod(block))
        self.clocks = Clocks(numbers, threads)
        self.count = len(numbers) * threads
        self.widths = registers
        self.registers: list[np.ndarray | None] = [None] * len(registers)
        self.carry = np.zeros(self.count, bool)
        self.random = np.random.default_rng(seed)
        self.names, self.parameters = names, parameters
        self.regions = dict(regions)
        self.shared_bytes, self.local_bytes = shared[0], local[0]
        clocks = self.clocks
        memory = np.zeros(_whole(len(numbers) * self.shared_bytes), np.uint8)
        self.regions[SHARED] = Region("shared memory", memory, shared[1], is_written=False, private=not checks_races)
        memory = np.zeros(_whole(self.count * self.local_bytes), np.uint8)
        self.regions[LOCAL] = Region("local memory", memory, local[1], is_written=False, private=True)
        self.all = Lanes(self.count)
        self.lane_numbers = np.arange(self.count)
        self.arguments: dict[int, np.ndarray] = {}
        """Arguments of the functions for accesses, by region (`checked`)."""
        self.copies: Any = None
        """Asynchronous copies under way (`access`)."""
        self.warp_number = clocks.block_of * clocks.warps + clocks.warp_of
        self.lane_in_warp = clocks.thread_of % WARP
        self.warp_begin = np.arange(self.count) - self.lane_in_warp
        self.warp_size = np.bincount(self.warp_number)[self.warp_number]
        self.special = _specials(clocks, numbers, grid, block, self.lane_in_warp)

    def read(self, slot: int, lanes: Lanes) -> np.ndarray:
        """The bits of a register."""
        values = self.registers[slot]
        if values is None:
            values = self.registers[slot] = self._poison(slot)
        return values if lanes.index is None or values.size == 1 else values[lanes.index]

    def write(self, slot: int, lanes: Lanes, values: np.ndarray) -> None:
        """Give lanes new bits, which nobody else holds."""
        if lanes.index is None:
            self.registers[slot] = values
            return
        old = self.registers[slot]
        if old is None:
            old = self._poison(slot)
        if old.size != self.count or not old.flags.writeable:
            old = np.array(np.broadcast_to(old, self.count))
        self.registers[slot] = old
        old[lanes.index] = values

    def _poison(self, slot: int) -> np.ndarray:
        width = self.widths[slot]
        return np.zeros(1, bool) if not width else np.full(width, POISON, np.uint8).view(UNSIGNED[width])

    def places(
        self, space: str, addresses: np.ndarray, size: int, lanes: Lanes
    ) -> Iterator[tuple[Region, Lanes, np.ndarray, np.ndarray]]:
        """For each region that addresses lie in: the lanes, where among `lanes` they are, and places in the region.

        `size` bytes at each address are inside the region and lie at a multiple of `size`.
        """
        wrong = addresses % size != 0
        if wrong.any():
            self._fault(wrong, lanes, f"an access of {size} bytes is not aligned", addresses)
        number, offset = addresses >> WINDOW, addresses & ((1 << WINDOW) - 1)
        plain = {"shared": SHARED, "local": LOCAL}.get(space)
        if plain is not None:
            number = np.where(number == 0, plain, number)
            if (number != plain).any():
                self._fault(number != plain, lanes, f"the address is not in {space} memory", addresses)
        for each in np.unique(number) if number.size > 1 and (number != number[0]).any() else number[:1]:
            region = self.regions.get(int(each))
            inside = number == each
            part = lanes if inside.all() else lanes.where(inside)
            chosen = np.arange(lanes.count) if part is lanes else np.flatnonzero(inside)
            if region is None:
                self._fault(inside, lanes, f"the {space or 'generic'} address is not in any buffer", addresses)
                return
            places = spread(offset, lanes)[chosen]
            limit = {SHARED: self.shared_bytes, LOCAL: self.local_bytes}.get(int(each), region.data.size)
            outside = places + size > limit
            if outside.any():
                text = (
                    f"an access of {size} bytes at byte {int(places[outside][0])} of {region.name}, which has {limit}"
                )
                raise Fault(f"out of bounds: {text}", int(part.numbers()[np.flatnonzero(outside)[0]]))
            if each == SHARED:
                places = places + self.clocks.block_of[part.numbers()] * self.shared_bytes
            elif each == LOCAL:
                places = places + part.numbers() * self.local_bytes
            yield region, part, chosen, places

    def _fault(self, wrong: np.ndarray, lanes: Lanes, message: str, addresses: np.ndarray) -> None:
        place = int(np.flatnonzero(spread(wrong, lanes))[0])
        address = int(spread(addresses, lanes)[place])
        raise Fault(f"{message} (address {address:#x})", int(lanes.numbers()[place]))

    def whole_warps(self, lanes: Lanes) -> bool:
        """Whether each warp that takes part does so with all of its lanes."""
        if lanes.index is None:
            return True
        numbers, counts = np.unique(self.warp_number[lanes.index], return_counts=True)
        sizes = np.bincount(self.warp_number)
        return bool((sizes[numbers] == counts).all())


def _whole(size: int) -> int:
    return -(-size // 16) * 16


def _specials(
    clocks: Clocks, numbers: np.ndarray, grid: Sequence[int], block: Sequence[int], lane: np.ndarray
) -> dict[str, np.ndarray]:
    thread, number = clocks.thread_of, numbers[clocks.block_of]
    found = {"%laneid": lane, "%warpid": clocks.warp_of, "%nwarpid": np.array([clocks.warps])}
    for axis, letter in enumerate("xyz"):
        found[f"%tid.{letter}"] = thread // int(np.prod(block[:axis])) % block[axis]
        found[f"%ctaid.{letter}"] = number // int(np.prod(grid[:axis])) % grid[axis]
        found[f"%ntid.{letter}"], found[f"%nctaid.{letter}"] = np.array([block[axis]]), np.array([grid[axis]])
    one = np.uint64(1) << lane.astype(np.uint64)
    masks = {"eq": one, "lt": one - np.uint64(1), "le": 2 * one - np.uint64(1)}
    masks |= {"gt": ~masks["le"], "ge": ~masks["lt"]}
    found |= {f"%lanemask_{name}": mask for name, mask in masks.items()}
    return {name: (np.asarray(values) & 0xFFFFFFFF).astype(np.uint32) for name, values in found.items()}
