"""The shape of a tile: the part of a contraction that one call of the micro-kernel of `tile.py` computes."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.cpu.kernels.products import Products
from trainer.engine.targets.ir.writer import Integer


@dataclass(frozen=True, slots=True)
class Level:
    """A loop of the reduction: its extent, and the elements that `a`, `b` and memory read later move by at each step.

    An `extent` or step that is a register name becomes a parameter of the tile.
    """

    extent: Integer
    a_step: Integer
    b_step: Integer
    ahead_step: int = 0


@dataclass(frozen=True, slots=True)
class LevelPart:
    """A part of the innermost level that concerns only some rows: its extent, and where it begins in `a` and `b`."""

    extent: Integer
    a_shift: int
    b_shift: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """One shape of the micro-kernel.

    rows: displacement of each row in `a`, in elements; outputs: of each row in the output.
    vectors, b_vector_step: how many vectors, and the elements between them in `b`.
    lanes: how many lanes of the last vector are stored; b_masked: whether they are also all that may be read.
    runs: parts of the innermost level, instead of all of it for all rows.
    accumulate: add what the output holds already to the finished sum (then the output has the accumulator's dtype).
    products: what one element of `a` and of `b` is, and how two are multiplied (`products.py`).
    prefetched: whether the cache lines of the output, and those of its size that the epilogue reads, are asked for
    before the sum begins. right_ahead: how many steps before its use a row of `b` is asked for; 0: never.
    """

    dtype: DType
    rows: tuple[int, ...]
    outputs: tuple[int, ...]
    vectors: int
    b_vector_step: int
    lanes: int
    levels: tuple[Level, ...]
    unroll: int = 1
    b_masked: bool = False
    accumulate: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    runs: tuple[LevelPart, ...] = ()
    products: Products = "single"
    prefetched: bool = False
    right_ahead: int = 0

    @property
    def by_tile_registers(self) -> bool:
        """Whether AMX multiplies."""
        return self.products.startswith("tile_")

    @property
    def asks(self) -> bool:
        """Whether it asks for memory that is read later, some elements at each step of the innermost level: it is
        handed its address last. A processor follows few streams by itself.
        """
        return bool(self.levels[-1].ahead_step)

    @property
    def variables(self) -> tuple[str, ...]:
        """Registers that the levels use, each once, in order."""
        names = [value for level in self.levels for value in (level.extent, level.a_step, level.b_step)]
        return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
