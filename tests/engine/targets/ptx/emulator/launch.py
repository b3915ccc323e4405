"""Executes kernels: `launch` runs a grid of blocks on NumPy arrays. Errors name the kernel, line and thread.

A chunk of blocks runs at once. Straight pieces of code run for all lanes that are at their beginning; the piece that
comes first in the kernel goes before others, so that divergent lanes of a warp meet again, and from time to time a
seeded choice of a warp instead, so that a warp may wait for another one. Blocks come in seeded order.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

# each of these modules enters its instructions into the table
from tests.engine.targets.ptx.emulator import access, compiled, conversions, floats, integers, moves, warp  # noqa: F401
from tests.engine.targets.ptx.emulator.clocks import WARP
from tests.engine.targets.ptx.emulator.decode import Decoder, Execute, Read, decode
from tests.engine.targets.ptx.emulator.fault import Fault, Unsupported
from tests.engine.targets.ptx.emulator.kinds import KINDS
from tests.engine.targets.ptx.emulator.machine import WINDOW, Lanes, Machine
from tests.engine.targets.ptx.emulator.memory import Region
from tests.engine.targets.ptx.emulator.parse import Instruction, Kernel, Module, Name, Register, Variable, parse

MOST_LANES = 1 << 16
OTHER_EVERY = 16
"""Interval, in straight pieces of code, at which a seeded warp runs instead of the one that is furthest behind."""

_CONTROL = ("bra", "ret", "exit", "bar", "barrier", "trap")


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel gets a pointer to, `offset` bytes in. Reading before writing is an error where it is not
    `is_written`: everywhere or nowhere, or by a mask of bytes, which the launch updates.
    """

    array: np.ndarray
    is_written: bool | np.ndarray = True
    is_writable: bool = True
    offset: int = 0


Argument = np.ndarray | Buffer | np.generic | int


def launch(
    text: str, grid: Sequence[int] | int, block: Sequence[int] | int, arguments: Sequence[Argument], *,
    kernel: str | None = None, shared_bytes: int = 0, seed: int = 0, checks_races: bool = True,
) -> None:  # fmt: skip
    """Run a kernel of a module (its only one, or the one named), changing arrays in place.

    Arrays are C-contiguous and handed over as pointers, integers as parameters of the declared size. `shared_bytes`
    is the size of the module's dynamic shared memory. Raises `Fault` for an error of the kernel, `Unsupported` for PTX
    that the emulator does not execute. Half of the time goes into finding races, which a launch that has been checked
    before need not repeat.
    """
    grid, block = _three(grid), _three(block)
    if int(np.prod(block)) > 1024:
        raise Fault(f"a block of {int(np.prod(block))} threads: the maximum is 1024")
    code = _code(text, kernel)
    regions, names, parameters = _placed(code, arguments, checks_races)
    threads = int(np.prod(block))
    order = np.random.default_rng(seed).permutation(int(np.prod(grid)))
    chunk = max(1, MOST_LANES // threads)
    shared = sum(_whole(variable.size) for variable in code.shared) + shared_bytes
    local = sum(_whole(variable.size) for variable in code.local)
    for start in range(0, len(order), chunk):
        machine = Machine(
            order[start : start + chunk], grid, block, code.widths, regions, names, parameters,
            (shared, code.units.get("shared", 4)), (local, code.units.get("local", 1)), seed + start, checks_races,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            _Run(code, machine).run()
    masks = {id(each.is_written): each for each in arguments if isinstance(each, Buffer)}
    for argument in masks.values():
        if isinstance(argument.is_written, np.ndarray):
            place = _begin(argument.array)
            region = next(each for each in regions.values() if _begin(each.data) == place)
            if region.is_writable:
                argument.is_written[:] |= region.written()


def _begin(array: np.ndarray) -> int:
    """The address of an array in this process."""
    return int(array.__array_interface__["data"][0])


def _three(size: Sequence[int] | int) -> tuple[int, ...]:
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return (*sizes, *(1,) * (3 - len(sizes)))


def _whole(size: int) -> int:
    return -(-size // 16) * 16


@dataclass
class _Piece:
    """Straight code up to a branch, barrier or label: what executes it, and its last instruction where it is one."""

    steps: list[tuple[Instruction, Execute]]
    end: Instruction | None
    barrier: _Barrier | None = None
    target: int = -1


@dataclass
class _Barrier:
    """A barrier: its number, the threads that it waits for (None: the whole block), and whether it only arrives."""

    number: Read
    count: Read | None
    only_arrives: bool


@dataclass
class _Code:
    kernel: Kernel
    module: Module
    pieces: list[_Piece] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    units: dict[str, int] = field(default_factory=dict)

    @property
    def shared(self) -> list[Variable]:
        return [each for each in (*self.module.variables, *self.kernel.variables) if each.space == "shared"]

    @property
    def local(self) -> list[Variable]:
        return [each for each in self.kernel.variables if each.space == "local"]


@functools.lru_cache(maxsize=1024)
def _code(text: str, name: str | None) -> _Code:
    module = parse(text)
    if name is None:
        if len(module.kernels) != 1:
            raise Unsupported(f"which of the kernels {', '.join(module.kernels)}")
        name = next(iter(module.kernels))
    kernel = module.kernels[name]
    code = _Code(kernel, module, widths=_widths(kernel), units=_units(kernel))
    starts = {0, *kernel.labels.values()}
    starts |= {number + 1 for number, each in enumerate(kernel.instructions) if each.opcode[0] in _CONTROL}
    readers = compiled.readers_of(kernel.instructions)
    begins = sorted(start for start in starts if start < len(kernel.instructions))
    numbers = {start: number for number, start in enumerate(begins)}
    numbers[len(kernel.instructions)] = len(begins)
    for start, stop in zip(begins, [*begins[1:], len(kernel.instructions)], strict=True):
        instructions = kernel.instructions[start:stop]
        end = instructions[-1] if instructions[-1].opcode[0] in _CONTROL else None
        steps = [(each, decode(each)) for each in (instructions[:-1] if end else instructions)]
        piece = _Piece(compiled.joined(steps, readers), end)
        if end is not None and end.opcode[0] == "bra":
            piece.target = numbers[kernel.labels[_label(end)]]
        elif end is not None and end.opcode[0] in ("bar", "barrier"):
            piece.barrier = _barrier(end)
        code.pieces.append(piece)
    return code


def _label(code: Instruction) -> str:
    (operand,) = code.operands
    if not isinstance(operand, Name):
        raise Unsupported(f"line {code.line}: `{code.text}`")
    return operand.name


def _barrier(code: Instruction) -> _Barrier | None:
    """None for the barrier of a warp."""
    decoder = Decoder(code)
    if code.predicate is not None:
        raise decoder.refuse("a guarded barrier")
    if decoder.has("warp"):
        return None
    decoder.only("sync", "arrive", "aligned", "cta")
    count = decoder.source(1, "u32") if len(code.operands) > 1 else None
    return _Barrier(decoder.source(0, "u32"), count, decoder.has("arrive"))


def _widths(kernel: Kernel) -> list[int]:
    widths = [0] * kernel.registers
    for each in kernel.instructions:
        for operand in (*each.operands, each.second, each.predicate):
            items = getattr(operand, "items", (operand,))
            for item in items if isinstance(items, tuple) else ():
                item = getattr(item, "base", item)
                if isinstance(item, Register):
                    widths[item.slot] = item.width
    return widths


def _units(kernel: Kernel) -> dict[str, int]:
    """The smallest access to each space, in bytes; a generic address may be in any."""
    found: dict[str, int] = {}
    for each in kernel.instructions:
        if each.opcode[0] in ("ld", "st", "atom", "red", "ldu", "cp", "ldmatrix"):
            decoder = Decoder(each)
            size = {"cp": 4, "ldmatrix": 2}.get(decoder.name) or KINDS[decoder.kinds[-1]].itemsize
            spaces = ["shared", "global"] if decoder.name == "cp" else [decoder.space or "generic"]
            for space in spaces:
                found[space] = min(size, found.get(space, 8))
    generic = found.pop("generic", 8)
    return {space: min(found.get(space, 8), generic) for space in ("global", "shared", "local", "const")}


def _placed(
    code: _Code, arguments: Sequence[Argument], checks_races: bool
) -> tuple[dict[int, Region], Mapping[str, int], Mapping[str, np.ndarray]]:
    """Regions by number, addresses of names, and the bytes of parameters."""
    kernel = code.kernel
    if len(arguments) != len(kernel.parameters):
        raise Fault(f"{kernel.name} takes {len(kernel.parameters)} parameters, found {len(arguments)}")
    regions: dict[int, Region] = {}
    names: dict[str, int] = {}
    parameters: dict[str, np.ndarray] = {}
    by_memory: dict[int, int] = {}

    def add(region: Region) -> int:
        regions[len(regions) + 1] = region
        return len(regions) << WINDOW

    for number, (parameter, argument) in enumerate(zip(kernel.parameters, arguments, strict=True)):
        if isinstance(argument, np.ndarray) and argument.ndim:
            argument = Buffer(argument)
        if isinstance(argument, Buffer):
            data = argument.array.reshape(-1).view(np.uint8)
            assert np.shares_memory(data, argument.array) or not data.size
            place = _begin(argument.array)
            if place not in by_memory or not data.size:
                unit = code.units["global"]
                by_memory[place] = add(
                    Region(
                        f"argument {number}", data, unit, argument.is_written, argument.is_writable, not checks_races
                    )
                )
            content = np.array([by_memory[place] + argument.offset], np.uint64).view(np.uint8)
        else:
            value = np.asarray(argument)
            content = (
                value.reshape(1).view(np.uint8)
                if value.itemsize == parameter.size
                else np.array([int(value)], f"i{parameter.size}").view(np.uint8)
            )
        if content.size != parameter.size:
            raise Fault(
                f"the parameter {parameter.name} has {parameter.size} bytes, argument {number} has {content.size}"
            )
        parameters[parameter.name] = content
    place = {"shared": 0, "local": 0}
    for variable in (*code.module.variables, *kernel.variables):
        if variable.space in place:
            names[variable.name] = place[variable.space]
            place[variable.space] += _whole(variable.size)
        else:
            data = np.zeros(_whole(variable.size), np.uint8)
            if variable.content is not None:
                data[: variable.size] = np.frombuffer(variable.content, np.uint8)
            writable = variable.space == "global"
            unit = code.units["global" if writable else "const"]
            names[variable.name] = add(Region(variable.name, data, unit, True, writable, not checks_races))
    return regions, names, parameters


class _Run:
    """One chunk of blocks while it runs."""

    def __init__(self, code: _Code, machine: Machine) -> None:
        self.code, self.machine = code, machine
        self.at = np.zeros(machine.count, np.int64)
        self.end = len(code.pieces)
        self.waits = np.zeros(machine.count, bool)
        self.barriers: dict[tuple[int, int], _Waiting] = {}
        self.count = 0
        self.meets = np.array([*(piece.barrier is not None for piece in code.pieces), False])

    def run(self) -> None:
        uniform: int | None = 0
        while True:
            if uniform is not None:
                if uniform == self.end:
                    return
                number, lanes = uniform, self.machine.all
            else:
                chosen = self._choose()
                if chosen is None:
                    return
                number, lanes = chosen
            uniform = self._step(number, lanes)

    def _choose(self) -> tuple[int, Lanes] | None:
        running = (self.at < self.end) & ~self.waits
        if not running.any():
            if self.waits.any():
                self._deadlock()
            return None
        running = self._met(running)
        self.count += 1
        if self.count % OTHER_EVERY:
            number = int(self.at[running].min())
        else:  # a warp may wait for what another one does later in the code
            warps = self.machine.warp_number
            warp = self.machine.random.choice(np.unique(warps[running]))
            number = int(self.at[running & (warps == warp)].min())
            first = np.full(int(warps.max()) + 1, self.end)
            np.minimum.at(first, warps[running], self.at[running])
            running &= first[warps] == number
        index = np.flatnonzero(running & (self.at == number))
        return number, self.machine.all if len(index) == self.machine.count else Lanes(len(index), index)

    def _met(self, running: np.ndarray) -> np.ndarray:
        """The running lanes but those that are before a barrier while others of their warp have yet to come there."""
        held = running & self.meets[self.at]
        if not held.any():
            return running
        warps = self.machine.warp_number
        first, last = np.full(int(warps.max()) + 1, self.end), np.zeros(int(warps.max()) + 1, np.int64)
        np.minimum.at(first, warps[running], self.at[running])
        np.maximum.at(last, warps[running], self.at[running])
        others = running & ~(held & (first != last)[warps])
        return others if others.any() else running

    def _step(self, number: int, lanes: Lanes) -> int | None:
        """Run a piece; gives the next one where all lanes are at its beginning."""
        piece, machine = self.code.pieces[number], self.machine
        step: Instruction | None = None
        try:
            for current, execute in piece.steps:
                step = current
                execute(machine, lanes)
            step = piece.end
            return self._leave(piece, number, lanes)
        except Fault as fault:
            raise self._located(fault, step) from None

    def _located(self, fault: Fault, step: Instruction | None) -> Fault:
        where = self.code.kernel.name
        if step is not None:
            where += f", line {step.line}, `{step.text}`"
        if fault.lane is not None:
            where += f", {self.machine.clocks.describe(int(self.machine.clocks.threads(np.array([fault.lane]))[0]))}"
        return Fault(f"{where}: {fault}")

    def _leave(self, piece: _Piece, number: int, lanes: Lanes) -> int | None:
        machine, end = self.machine, piece.end
        following = np.full(1, number + 1)
        if end is not None:
            match end.opcode[0]:
                case "bra":
                    following = self._guard(end, lanes, piece.target, number + 1)
                case "ret" | "exit":
                    following = self._guard(end, lanes, self.end, number + 1)
                case "trap":
                    some = (
                        lanes
                        if end.predicate is None
                        else lanes.where(machine.read(end.predicate.slot, lanes) != end.is_negated)
                    )
                    if some.count:
                        raise Fault("trap", int(some.numbers()[0]))
                case _:
                    self._synchronize(piece, lanes)
        if lanes.index is None and (following == following[0]).all() and not self.waits.any():
            self.at[:] = following[0]
            return int(following[0])
        self.at[lanes.numbers()] = following
        return None

    def _guard(self, end: Instruction, lanes: Lanes, taken: int, other: int) -> np.ndarray:
        if end.predicate is None:
            return np.full(1, taken)
        return np.where(self.machine.read(end.predicate.slot, lanes) != end.is_negated, taken, other)

    # Barriers

    def _synchronize(self, piece: _Piece, lanes: Lanes) -> None:
        machine, clocks, barrier = self.machine, self.machine.clocks, piece.barrier
        assert piece.end is not None
        if barrier is None:
            members = Decoder(piece.end).source(0, "u32")
            warp.check_members(machine, lanes, members(machine, lanes), "bar.warp.sync")
            warps = np.unique(machine.warp_number[lanes.numbers()])
            clocks.tick(warps // clocks.warps, warps % clocks.warps)
            return
        if not machine.whole_warps(lanes):
            raise Fault("divergent barrier: not all threads of the warp are at it", int(lanes.numbers()[0]))
        numbers = barrier.number(machine, lanes)
        if lanes.index is None and barrier.count is None and numbers.size == 1 and not self.barriers:
            clocks.join_all()
            return
        blocks, indices = clocks.block_of[lanes.numbers()], lanes.numbers()
        keys = np.broadcast_to(numbers, lanes.count)
        counts = (
            np.full(lanes.count, clocks.size)
            if barrier.count is None
            else np.broadcast_to(barrier.count(machine, lanes), lanes.count)
        )
        for block, key in sorted({(int(b), int(k)) for b, k in zip(blocks, keys, strict=True)}):
            mine = (blocks == block) & (keys == key)
            self._arrive(block, key, indices[mine], int(counts[mine][0]), barrier.only_arrives)

    def _arrive(self, block: int, number: int, indices: np.ndarray, count: int, only_arrives: bool) -> None:
        clocks = self.machine.clocks
        if count != clocks.size and count % WARP:
            raise Fault(f"a barrier of {count} threads: a multiple of {WARP} is expected", int(indices[0]))
        waiting = self.barriers.setdefault((block, number), _Waiting(np.zeros(clocks.warps, np.int32)))
        warps = np.unique(clocks.warp_of[indices])
        waiting.known = np.maximum(waiting.known, clocks.arrive(block, warps))
        waiting.arrived += len(indices)
        if not only_arrives:
            self.waits[indices] = True
            waiting.lanes.append(indices)
        if waiting.arrived > count:
            raise Fault(f"barrier {number}: {waiting.arrived} threads arrived, {count} are expected", int(indices[0]))
        if waiting.arrived == count:
            del self.barriers[block, number]
            if waiting.lanes:
                released = np.concatenate(waiting.lanes)
                self.waits[released] = False
                clocks.leave(block, np.unique(clocks.warp_of[released]), waiting.known)

    def _deadlock(self) -> None:
        (_, number), waiting = next(each for each in self.barriers.items() if each[1].lanes)
        lane = int(waiting.lanes[0][0])
        piece = self.code.pieces[int(self.at[lane]) - 1]
        text = f"divergent barrier: {waiting.arrived} threads are at barrier {number}, no other thread will arrive"
        raise self._located(Fault(text, lane), piece.end)


@dataclass
class _Waiting:
    """The lanes at a barrier of a block, and what their warps know."""

    known: np.ndarray
    arrived: int = 0
    lanes: list[np.ndarray] = field(default_factory=list)
