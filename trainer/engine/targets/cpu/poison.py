"""The debug mode of the memory plan: fills memory with NaN as soon as the lifetime of its buffer ends."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph.dtypes import uint8
from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Buffer, KernelSource, View, Work
from trainer.engine.targets.cpu.kernels import elementwise
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel, pack_arguments
from trainer.engine.targets.cpu.lowering.launch import Address, Launch, Word
from trainer.engine.targets.ir.operand import Operand

_FILL = LoopKernel(1, (), (Instruction("constant", (), uint8, (0xFF,)),), ((0, Operand(uint8, "contiguous")),))
_CHUNK = 1 << 20


def poisoned(launches: Sequence[Launch]) -> list[Launch]:
    """Returns the launches, each followed by fills of the arena buffers that it is the last to read or write.

    Bytes of 0xFF are a NaN in every floating-point type, and an index that no kernel may follow.
    """
    last: dict[Buffer, int] = {}
    for index, launch in enumerate(launches):
        for buffer in (*launch.reads, *launch.writes):
            if buffer.in_arena:
                last[buffer] = index
    result: list[Launch] = []
    for index, launch in enumerate(launches):
        result.append(launch)
        result += [_fill(buffer) for buffer, end in last.items() if end == index]
    return result


def _fill(buffer: Buffer) -> Launch:
    words = pack_arguments(_FILL, [0], [buffer.nbytes], [[1]], _CHUNK)
    source = KernelSource(_FILL, lambda name: elementwise.render(_FILL, name))
    place: list[Word] = [Address(buffer), *words[1:]]
    view = View(buffer, uint8, (buffer.nbytes,), (1,))
    return Launch(Work("loop", None, (), (view,), "poison"), source, place, -(-buffer.nbytes // _CHUNK))
