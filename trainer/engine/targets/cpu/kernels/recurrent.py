"""One time step of a recurrent scan, forward or backward: a product with weights that stay in the cache, fused with the
cell computation after it. A repeat (`repeats.py`) runs it over all steps: thread t runs the tasks t, t + threads, … of
every step, so the panels of a task stay in the cache of one core for the whole sequence.

Weights are packed by `pack`, a matrix for each gate: [gate][vector of units][depth][lanes]. A panel is the same few
vectors of units of all gates. It is multiplied by a few rows of the batch at a time; sums go through scratch memory, so
the cell computation is written once, for one row. Numerics class "exact": one chain of fused multiply-adds for each
element, ascending, started from zero; other terms are added afterwards. Both operands are rounded to `precision` if it
is set, and multiplied in pairs (`products.py`) if it is bfloat16.

Function: `void name(ptr arguments, i64 task, ptr scratch)`. Argument words: the time step, then the addresses of
`operands`. For ragged rows, "rows" is the table of `ragged.py`; the scan's internal arrays are packed, while states and
outputs are in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.access import Elements, store_vector
from trainer.engine.targets.cpu.kernels.loops import broadcast
from trainer.engine.targets.cpu.kernels.products import multiply_add
from trainer.engine.targets.cpu.kernels.ragged import RaggedRows
from trainer.engine.targets.cpu.kernels.recurrent_cells import CellWriter, Kind
from trainer.engine.targets.ir.expression import MEMORY, cast, lanes_of, narrow
from trainer.engine.targets.ir.vectors import Floats
from trainer.engine.targets.ir.writer import Integer, Writer

_GATES = {"lstm": 4, "gru": 3}
WIDE, NARROW = 24, 6
"""Vectors of sums that stay in registers, out of 32 and 8; the others hold weights and a number of each row."""

_MOST_ROWS = 8
_UNROLLED = 4
_PACKED = frozenset({"x", "gates", "cells", "dx", "dp", "dhs"})
"""Arrays that are packed if rows are ragged."""

_TASK_CYCLES = 4096
"""Vector multiply-adds of a task that are worth a barrier."""


@dataclass(frozen=True, slots=True)
class Source:
    """The location of a row of the left operand: in `name`, whose rows have `width` elements, from `offset` on, `step`
    time steps away; without such a step, in the row of the first states `edge` [B, width] ("" for zeros).
    """

    name: str
    width: int
    offset: int = 0
    step: int = 0
    edge: str = ""


@dataclass(frozen=True, slots=True)
class ScanStep:
    """A step of `kind`: sums over `depth` for `units` units, each with its gates.

    neighbor: distance in time to the states that a step of the forward scan begins with. with_states: an LSTM has no
    projection; its output is its state, also in the backward pass. native: AVX-512-BF16's instruction multiplies pairs.
    keeps: gates and cells are stored for the backward pass. accumulators: WIDE or NARROW.
    """

    kind: Kind
    dtype: DType
    precision: DType | None
    steps: int
    batch: int
    depth: int
    units: int
    source: Source
    neighbor: int
    ragged: bool
    with_states: bool = True
    native: bool = False
    keeps: bool = True
    accumulators: int = WIDE

    @property
    def gates(self) -> int:
        return _GATES.get(self.kind, 1)

    @property
    def unit_vectors(self) -> int:
        """Vectors of units in a panel: wide panels load less from the caches, narrow ones leave more to share."""
        lanes = lanes_of(self.dtype)
        if self.gates > 1:
            return 1
        return 4 if self.units >= 32 * lanes else 2 if self.units >= 4 * lanes else 1

    @property
    def vectors(self) -> int:
        return self.gates * self.unit_vectors

    @property
    def panel_units(self) -> int:
        return self.unit_vectors * lanes_of(self.dtype)

    @property
    def panels(self) -> int:
        return -(-self.units // self.panel_units)

    @property
    def gate_vectors(self) -> int:
        """Vectors of units of a gate; the last panel may have unused places."""
        return -(-self.units // lanes_of(self.dtype))

    @property
    def pairs(self) -> bool:
        return self.precision is dtypes.bfloat16 and self.depth % 2 == 0

    @property
    def terms(self) -> int:
        """Numbers along the depth, or pairs of them."""
        return self.depth // 2 if self.pairs else self.depth

    @property
    def rows(self) -> int:
        """Rows that are multiplied at a time: the number with the fewest empty places and loads. Loads weigh little
        because they overlap with multiply-adds (for 64 rows, 4 at a time take 3 % less time than 6).
        """
        together = self.vectors if self.accumulators == WIDE else 1
        most = min(_MOST_ROWS, self.accumulators // together, self.batch)
        return min(
            range(1, most + 1),
            key=lambda rows: (-(-self.batch // rows) * (4 * rows * together + rows + together), -rows),
        )

    @property
    def together(self) -> int:
        """Vectors of a panel that are multiplied at a time. With few registers, sums are of many rows by one vector:
        fewer rows by several vectors would load the weights again for the other rows.
        """
        fitting = (count for count in range(1, self.vectors + 1) if self.rows * count <= self.accumulators)
        return max(count for count in fitting if self.vectors % count == 0)

    @property
    def panels_per_task(self) -> int:
        cycles = self.batch * self.terms * self.vectors
        return min(self.panels, -(-_TASK_CYCLES // max(1, cycles)))

    @property
    def tasks(self) -> int:
        return -(-self.panels // self.panels_per_task)

    @property
    def has_outputs(self) -> bool:
        """Whether the step writes the layer's outputs."""
        return self.kind in ("tanh", "relu", "gru", "projection") or (self.kind == "lstm" and self.with_states)

    @property
    def scratch(self) -> int:
        """Scratch bytes: the sums of some rows, then these rows rounded to the precision."""
        rounded = 0 if self.precision is None else self.rows * self.terms
        return (self.rows * self.vectors * lanes_of(self.dtype) + rounded) * self.dtype.itemsize

    @property
    def operands(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of their argument words."""
        saved = ("gates", "cells") if self.keeps else ()
        states = {
            "tanh": ("x", "y", "h"),
            "relu": ("x", "y", "h"),
            "lstm": ("x", *saved, "c", *(("y", "h") if self.with_states else ())),
            "gru": ("x", *saved[:1], "bias", "y", "h"),
            "projection": ("y", "h"),
            "tanh_back": ("y", "dy", "dh", "dx"),
            "relu_back": ("y", "dy", "dh", "dx"),
            "lstm_back": ("cells", "gates", "first", "dc", "dx", *(("dy", "dh") if self.with_states else ())),
            "gru_back": ("y", "gates", "first", "dy", "dh", "dx", "dp"),
            "state_back": ("dy", "dh", "dhs"),
        }[self.kind]
        ragged = ("rows",) if self.ragged else ()
        edge = (self.source.edge or "zeros",) if self.source.step else ()
        return tuple(dict.fromkeys(("panels", self.source.name, *edge, *states, *ragged)))

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return _StepWriter(self).render(name)


class _StepWriter:
    """Writes one kernel."""

    def __init__(self, kernel: ScanStep) -> None:
        self.kernel, self.writer = kernel, Writer()
        self.lanes = lanes_of(kernel.dtype)
        self.elements = Elements(self.writer, kernel.dtype)
        self.table = RaggedRows(kernel.batch, kernel.steps, 1)
        self.floats = Floats(self.writer, MEMORY[kernel.dtype.name], self.lanes)
        states, keeps = kernel.with_states, kernel.keeps
        self.cells = CellWriter(self.floats, self._load, self._store, self._earlier, states, keeps)
        kind = "native_pairs" if kernel.native else "widened_pairs"
        self.products = kind if kernel.pairs else "single"

    def render(self, name: str) -> str:
        kernel, writer = self.kernel, self.writer
        self.time = writer.argument(0, "i64")
        self.places = {operand: writer.argument(1 + at) for at, operand in enumerate(kernel.operands)}
        active = self._count_at(0)
        first, last = writer.share("%task", kernel.panels_per_task, kernel.panels)
        with writer.loop(first, last) as panel:
            weights = self._weights(panel.index)
            with writer.loop(0, active, kernel.rows) as block:
                self._multiply(weights, block.index, active)
                count = writer.minimum(kernel.rows, writer.subtract(active, block.index))
                with writer.loop(0, count) as row:
                    place = writer.multiply(row.index, kernel.vectors * self.lanes)
                    sums = self.elements.at("%scratch", place)
                    self._select_row(writer.add(block.index, row.index))
                    self._each_vector(panel.index, lambda unit, active: self._finish(sums, unit, active))
            if kernel.ragged and kernel.has_outputs:
                with writer.loop(active, kernel.batch) as rest:
                    self._select_row(rest.index)
                    self._each_vector(panel.index, self._clear)
        return writer.module(name, scratch=True)

    # Rows.

    def _count_at(self, step: int) -> Integer:
        """Number of rows that have the time step `step` steps away."""
        kernel, writer = self.kernel, self.writer
        if kernel.ragged and step >= 0:
            place = writer.add(self.time, self.table.counts + step)
            return writer.value(f"load i64, ptr {writer.pointer(self.places['rows'], place, 'i64')}")
        if step == 0:
            return kernel.batch
        edge = writer.value(f"icmp eq i64 {self.time}, {0 if step < 0 else kernel.steps - 1}")
        return writer.value(f"select i1 {edge}, i64 0, i64 {kernel.batch}")

    def _row(self, place: Integer) -> Integer:
        """The row of the batch at a place in the order of lengths."""
        if not self.kernel.ragged:
            return place
        return self.writer.value(f"load i64, ptr {self.writer.pointer(self.places['rows'], place, 'i64')}")

    def _select_row(self, place: Integer) -> None:
        """Selects the row at `place` for loads and stores."""
        self.place, self.row = place, self._row(place)
        self.tokens = {name: self._token(name, place, self.row) for name in ("y", "x")}

    def _token(self, name: str, place: Integer, row: Integer, step: int = 0) -> Integer:
        """The row of `name`, an array of all steps, that belongs to a row of the batch `step` time steps away."""
        writer, time = self.writer, self.writer.add(self.time, step)
        if not self.kernel.ragged or name not in _PACKED:
            return writer.add(writer.multiply(time, self.kernel.batch), row)
        start = writer.pointer(self.places["rows"], writer.add(time, self.table.starts), "i64")
        return writer.add(writer.value(f"load i64, ptr {start}"), place)

    def _row_at_step(self, name: str, width: int, place: Integer, row: Integer, step: int, offset: int = 0) -> str:
        """The address of a row of `name` `step` time steps away."""
        token = self._token(name, place, row, step)
        return self.elements.at(self.places[name], self.writer.add(self.writer.multiply(token, width), offset))

    def _stepped(self, name: str, width: int, place: Integer, row: Integer, step: int, edge: str) -> str:
        """As `_row_at_step`, or the row of `edge` if the step does not exist."""
        writer = self.writer
        there = writer.value(f"icmp slt i64 {place}, {self._count_at(step)}")
        first = self.places[edge or "zeros"]
        if edge:
            first = self.elements.at(first, writer.multiply(row, width))
        return writer.value(f"select i1 {there}, ptr {self._row_at_step(name, width, place, row, step)}, ptr {first}")

    def _sources(self, block: Integer, active: Integer) -> list[str]:
        """The addresses of the left operand's rows; past the end, the last row repeats."""
        kernel, writer, source = self.kernel, self.writer, self.kernel.source
        found = []
        for number in range(kernel.rows):
            place = writer.minimum(writer.add(block, number), writer.subtract(active, 1))
            row = self._row(place)
            if source.step:
                found.append(self._stepped(source.name, source.width, place, row, source.step, source.edge))
            else:
                found.append(self._row_at_step(source.name, source.width, place, row, 0, source.offset))
        return found

    # The product.

    def _weights(self, panel: Integer) -> list[str]:
        """The address of each vector of a panel; past the end of the units, the last vector repeats."""
        kernel, writer = self.kernel, self.writer
        found = []
        for gate in range(kernel.gates):
            for number in range(kernel.unit_vectors):
                vector = writer.add(writer.multiply(panel, kernel.unit_vectors), number)
                place = writer.add(writer.minimum(vector, kernel.gate_vectors - 1), gate * kernel.gate_vectors)
                start = self.elements.at(self.places["panels"], writer.multiply(place, kernel.terms * self.lanes))
                found.append(writer.opaque("ptr", start))
        return found

    def _multiply(self, weights: Sequence[str], block: Integer, active: Integer) -> None:
        """Stores the sums of some rows in the scratch."""
        kernel, writer, elements, kind = self.kernel, self.writer, self.elements, self.floats.type
        rows = self._sources(block, active)
        if kernel.precision is not None:
            rows = [self._rounded(row, number) for number, row in enumerate(rows)]
        whole = kernel.terms // _UNROLLED * _UNROLLED
        for first in range(0, kernel.vectors, kernel.together):
            some = weights[first : first + kernel.together]
            sums = ["zeroinitializer"] * (kernel.rows * kernel.together)
            if whole:
                with writer.loop(0, whole, _UNROLLED, [(kind, value) for value in sums]) as loop:
                    sums = loop.carried
                    for number in range(_UNROLLED):
                        sums = self._multiply_one(some, rows, writer.add(loop.index, number), sums)
                    loop.next = sums
                sums = loop.next
            for number in range(whole, kernel.terms):
                sums = self._multiply_one(some, rows, number, sums)
            for number, value in enumerate(sums):
                row, vector = divmod(number, kernel.together)
                elements.store(value, "%scratch", (row * kernel.vectors + first + vector) * self.lanes)

    def _multiply_one(
        self, weights: Sequence[str], rows: Sequence[str], term: Integer, sums: Sequence[str]
    ) -> list[str]:
        kernel, writer, elements, kind = self.kernel, self.writer, self.elements, self.floats.type
        vectors = [elements.load(each, writer.multiply(term, self.lanes)) for each in weights]
        found = []
        for number, row in enumerate(rows):
            scalar = writer.value(f"load {elements.element}, ptr {elements.at(row, term)}, align 4")
            value = broadcast(writer, elements.element, scalar, self.lanes)
            own = sums[number * len(vectors) :][: len(vectors)]
            found += [
                multiply_add(writer, self.products, kernel.dtype, kind, value, vector, total)
                for vector, total in zip(vectors, own, strict=True)
            ]
        return found

    def _rounded(self, row: str, number: int) -> str:
        """Rounds a row to the precision, into the scratch; returns its address there."""
        kernel, writer, elements = self.kernel, self.writer, self.elements
        assert kernel.precision is not None
        target = elements.at("%scratch", kernel.rows * kernel.vectors * self.lanes + number * kernel.terms)
        for place, active in self._vectors_of(kernel.depth):
            value = cast(writer, elements.load(row, place, active), kernel.dtype, kernel.precision, self.lanes)
            if kernel.pairs:
                there = writer.pointer(target, place, MEMORY[kernel.precision.name])
                value = narrow(writer, value, kernel.precision, self.lanes)
                store_vector(writer, kernel.precision, value, there, self.lanes, active)
            else:
                elements.store(value, target, place, active)
        return target

    def _vectors_of(self, length: int) -> Iterator[tuple[Integer, int | None]]:
        """Yields the start of each vector of `length` elements and its number of elements (None: all), in its loop."""
        whole = length // self.lanes * self.lanes
        if whole:
            with self.writer.loop(0, whole, self.lanes) as loop:
                yield loop.index, None
        if whole < length:
            yield whole, length - whole

    # The cell computation.

    def _each_vector(self, panel: Integer, do: Callable[[Sequence[Integer], int | None], None]) -> None:
        """Calls `do` with the (number, first unit) and the number of units (None: all) of each vector of a panel."""
        kernel, writer = self.kernel, self.writer
        rest = kernel.units % kernel.panel_units
        first = writer.multiply(panel, kernel.panel_units)

        def all_of(count: int) -> None:
            for number in range(kernel.unit_vectors):
                active = min(self.lanes, count - number * self.lanes)
                if active > 0:
                    unit = writer.add(first, number * self.lanes)
                    do((number, unit), None if active == self.lanes else active)

        if not rest or kernel.panels == 1:
            all_of(rest or kernel.panel_units)
            return
        with writer.when(writer.value(f"icmp slt i64 {panel}, {kernel.panels - 1}")):
            all_of(kernel.panel_units)
        with writer.when(writer.value(f"icmp eq i64 {panel}, {kernel.panels - 1}")):
            all_of(rest)

    def _place(self, name: str, section: int = 0) -> tuple[str, Integer]:
        """The address of array `name`, and the offset of its vector for the row and units."""
        kernel, writer = self.kernel, self.writer
        wide = {"x": kernel.gates, "dx": 1, "dp": 3, "gates": 4}
        wide |= {"lstm_back": {"dx": 4}, "gru_back": {"dx": 3}}.get(kernel.kind, {})
        if kernel.kind in ("lstm", "lstm_back") and not kernel.with_states:
            wide["gates"] = 5
        if name == "bias":
            return self.places[name], self.unit
        row = self.row if name in ("h", "c", "dh", "dc") else self.tokens["x" if name in _PACKED else "y"]
        start = writer.multiply(row, wide.get(name, 1) * kernel.units)
        return self.places[name], writer.add(writer.add(start, section * kernel.units), self.unit)

    def _load(self, name: str, section: int = 0) -> str:
        place, offset = self._place(name, section)
        return self.elements.load(place, offset, self.active)

    def _store(self, value: str, name: str, section: int = 0) -> None:
        place, offset = self._place(name, section)
        self.elements.store(value, place, offset, self.active)

    def _earlier(self, name: str) -> str:
        """The row's vector of `name` at the previous step in scan order."""
        kernel = self.kernel
        row = self._stepped(name, kernel.units, self.place, self.row, kernel.neighbor, "first")
        return self.elements.load(row, self.unit, self.active)

    def _clear(self, unit: Sequence[Integer], active: int | None) -> None:
        """Writes zeros as the output of a row that does not have this step."""
        self.unit, self.active = unit[1], active
        self._store("zeroinitializer", "y")

    def _finish(self, sums: str, unit: Sequence[Integer], active: int | None) -> None:
        """Applies the cell computation to the sums of a row for a vector of units."""
        kernel = self.kernel
        number, self.unit = unit
        self.active = active
        assert isinstance(number, int)
        totals = [
            self.elements.load(sums, (gate * kernel.unit_vectors + number) * self.lanes) for gate in range(kernel.gates)
        ]
        self.cells.finish(kernel.kind, totals)
