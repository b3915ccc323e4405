"""The state of an expansion: the items so far, and the operands copied or packed for several of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.storage import Layout
from trainer.engine.program import loops
from trainer.engine.program.work import Buffer, View, Work
from trainer.engine.targets.cpu.kernels.pack import PackSpec
from trainer.engine.targets.cpu.lowering.launch import Coded, Routine
from trainer.engine.targets.cpu.lowering.loops import with_code
from trainer.engine.targets.cpu.machine import Machine

Numerics = Literal["exact", "fast"]
"""How sums are formed (docs/engine.md): only the user chooses it, before the first step."""

Bfloat16 = Literal["pairs", "tiles"]
"""How sums of bfloat16 products are formed: in pairs on every processor, or as on AMX. Also chosen only by the user."""


class Preparation(Coded, Protocol):
    """A kernel that writes an operand of `size` elements of `dtype`."""

    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> DType: ...


@dataclass
class Expansion:
    """Collects items in the form of the CPU's kernels; the expansion of each item adds its own with `add`."""

    machine: Machine
    numerics: Numerics = "exact"
    bfloat16: Bfloat16 = "pairs"
    per_item: bool = False
    works: list[Work] = field(default_factory=list)
    _copies: dict[tuple[View, Layout], View] = field(default_factory=dict)
    _prepared: dict[object, View] = field(default_factory=dict)

    def add(self, work: Work) -> None:
        """Adds an item, and the code of a loop."""
        self.works.append(with_code(work) if work.kind == "loop" else work)

    def copy(self, source: View, target: View, label: str) -> None:
        self.add(loops.copy(source, target, label))

    def fill(self, target: Buffer, value: int | float | bool) -> None:
        self.add(loops.fill(target, value))

    def dense(self, view: View, fits: Callable[[tuple[int, ...]], bool], layout: Layout) -> View:
        """Returns `view`, or a copy in `layout` if its strides do not fit; all items that read it share the copy."""
        if fits(view.strides):
            return view
        copy = self._copies.get((view, layout))
        if copy is None:
            buffer = Buffer(view.size, view.dtype, f"{view.name} relayout")
            copy = replace(view, buffer=buffer, strides=layout.strides(view.shape), offset=0)
            self.copy(view, copy, "relayout")
            self._copies[view, layout] = copy
        return copy

    def laid_out(self, view: View, layout: Layout) -> View:
        """Returns `view` if it is dense in `layout`, else a copy."""
        strides = layout.strides(view.shape)

        def fits(steps: tuple[int, ...]) -> bool:
            return all(a == b for a, b, extent in zip(steps, strides, view.shape, strict=True) if extent != 1)

        return self.dense(view, fits, layout)

    def prepared(
        self, source: View, kernel: Preparation, label: str, name: str = "", table: View | None = None
    ) -> View:
        """Prepares an operand with `kernel`, which reads `table`, too; once for all items that read the result."""
        place = source.buffer, source.offset * source.dtype.itemsize, kernel, table
        target = self._prepared.get(place)
        if target is None:
            buffer = Buffer(kernel.size, kernel.dtype, name or label)
            target = self._prepared[place] = View(buffer, kernel.dtype, (kernel.size,), (1,))
            reads = (source,) if table is None else (source, table)
            places = *reads, target
            routine = Routine.worded(kernel, *places) if isinstance(kernel, PackSpec) else Routine.of(kernel, *places)
            self.add(Work("copy", routine, reads, (target,), label))
        return target
