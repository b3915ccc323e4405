"""Writes the text of LLVM IR: one function and its module, with loops in static single assignment.

A value is a string: a name such as "%v12", or a constant such as "splat (i32 1)". An integer operand of the arithmetic
is a Python `int` (known while rendering) or a `str` (an i64 register). Arithmetic on two known integers happens while
rendering, so a template may pass either, and the text holds only arithmetic that depends on the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

Typed = tuple[str, str]
"""An LLVM type and a value of it: ("<16 x float>", "%v3")."""

Integer = int | str

_METADATA = "!0 = !{}\n!1 = !{i32 1}\n"
"""The metadata that `!invariant.load` and `!nontemporal` refer to."""

_MANGLED = {"float": "f32", "double": "f64", "ptr": "p0"}


def vector(element: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements."""
    return f"<{lanes} x {element}>"


def mangled(type_name: str) -> str:
    """Returns the spelling of a type in an intrinsic's name: "<16 x float>" is "v16f32"."""
    if type_name.startswith("<"):
        lanes, element = type_name[1:-1].split(" x ")
        return f"v{lanes}{mangled(element)}"
    return _MANGLED.get(type_name, type_name)


@dataclass
class Loop:
    """An open loop: its index, its carried values, and in `next` their successors, after the loop the last values."""

    index: Integer
    carried: list[str]
    next: list[str]
    step: Integer = 1


class Writer:
    """Collects the instructions of one function, from its block "entry" on, and its module's declarations."""

    def __init__(self, parent: Writer | None = None) -> None:
        self.lines = ["entry:"]
        self.block = "entry"
        self._counter = 0
        self._declarations: dict[str, str] = parent._declarations if parent else {}
        self._definitions: dict[str, str] = parent._definitions if parent else {}

    # Instructions and blocks.

    def fresh(self, hint: str) -> str:
        """Returns a name not used before in this function, without the leading %."""
        self._counter += 1
        return f"{hint}{self._counter}"

    def emit(self, line: str) -> None:
        """Writes one instruction without a result."""
        self.lines.append(f"  {line}")

    def value(self, expression: str, hint: str = "v") -> str:
        """Writes one instruction; returns the name of its result."""
        name = f"%{self.fresh(hint)}"
        self.lines.append(f"  {name} = {expression}")
        return name

    def label(self, name: str) -> None:
        """Begins the basic block `name`; the block before must have ended with a branch."""
        self.lines.append(f"{name}:")
        self.block = name

    def branch(self, target: str) -> None:
        self.emit(f"br label %{target}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        self.emit(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def intrinsic(self, name: str, result: str, *arguments: Typed) -> str:
        """Calls `llvm.<name>`, where `name` includes the mangled types; returns the result's name, "" for void."""
        parameters = ", ".join(kind.split(" align ")[0] for kind, _ in arguments)
        self._declarations[name] = f"declare {result} @llvm.{name}({parameters})"
        return self.call(result, f"llvm.{name}", *arguments)

    def call(self, result: str, function: str, *arguments: Typed) -> str:
        """Calls a function of this module."""
        text = f"call {result} @{function}({', '.join(f'{kind} {value}' for kind, value in arguments)})"
        if result == "void":
            self.emit(text)
            return ""
        return self.value(text)

    def run(self, function: str, pointers: Sequence[str], integers: Sequence[Integer] = ()) -> None:
        """Calls a void function of this module that takes pointers, then integers."""
        arguments = [("ptr", pointer) for pointer in pointers]
        self.call("void", function, *arguments, *(("i64", str(value)) for value in integers))

    def apply(self, name: str, kind: str, *operands: str) -> str:
        """Calls an intrinsic whose operands and result are of one type: fma, smax, fabs, ..."""
        return self.intrinsic(f"{name}.{mangled(kind)}", kind, *((kind, operand) for operand in operands))

    def lookup(self, kind: str, table: str, bits: str, index: str) -> str:
        """Looks up table[index & 15] in sixteen floats; `targets.cpu.lookups` implements it for the target machine."""
        self._declarations["lookup16"] = f"declare {kind} @lookup16({kind}, {bits})"
        return self.call(kind, "lookup16", (kind, table), (bits, index))

    def opaque(self, kind: str, value: str) -> str:
        """Hides from LLVM how `value` is computed.

        Loop strength reduction compares every pair of address formulas: nine pointers with visible formulas cost
        forty milliseconds of compile time, and give no faster code.
        """
        return self.value(f"freeze {kind} {value}")

    def shuffle(self, kind: str, a: str, b: str, lanes: Sequence[int]) -> str:
        """Selects `lanes` from `a` followed by `b`, both of type `kind`."""
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.value(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{order}>")

    # The module.

    def helper(
        self, name: str, result: str, parameters: Sequence[Typed], build: Callable[[Writer], None],
        attributes: str = "nounwind",
    ) -> str:  # fmt: skip
        """Defines the internal function `name` once per module; `build` writes its blocks. Returns `name`."""
        if name not in self._definitions:
            self._definitions[name] = ""  # reserves its place before the functions that it calls
            inner = type(self)(self)
            build(inner)
            if result == "void":
                inner.emit("ret void")
            signature = ", ".join(f"{kind} {value}" for kind, value in parameters)
            body = "\n".join(inner.lines)
            self._definitions[name] = f"define internal {result} @{name}({signature}) {attributes} {{\n{body}\n}}"
        return name

    def function(self, name: str, parameters: Sequence[Typed], build: Callable[[Writer], None]) -> str:
        """Defines the internal void function `name` once per module; calls of it are not inlined."""
        return self.helper(name, "void", parameters, build, "noinline nounwind")

    def constant(self, name: str, text: str) -> str:
        """Defines the module's constant `name` (`text` = type and initializer) once; returns the reference "@name"."""
        self._definitions[f"constant {name}"] = f"@{name} = internal unnamed_addr constant {text}, align 64"
        return f"@{name}"

    def table(self, name: str, words: Sequence[int], element: str = "i64") -> str:
        """Defines a constant array of integers; returns the reference "@name"."""
        return self.constant(name, f"[{len(words)} x {element}] [{', '.join(f'{element} {word}' for word in words)}]")

    def module(self, name: str, *, scratch: bool = False) -> str:
        """Returns the finished module, which exports `void name(ptr arguments, i64 task[, ptr scratch])`."""
        self.emit("ret void")
        parameters = "ptr noalias %arguments, i64 %task" + (", ptr noalias %scratch" if scratch else "")
        function = f"define void @{name}({parameters}) nounwind {{\n" + "\n".join(self.lines) + "\n}"
        return "\n".join([*self._definitions.values(), function, *self._declarations.values(), _METADATA])

    # Integer arithmetic, folded where both sides are known.

    def add(self, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        if left == 0:
            return right
        if right == 0:
            return left
        return self.value(f"add nsw i64 {left}, {right}", "i")

    def subtract(self, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        return left if right == 0 else self.value(f"sub nsw i64 {left}, {right}", "i")

    def multiply(self, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return left * right
        if left == 0 or right == 0:
            return 0
        if left == 1:
            return right
        if right == 1:
            return left
        return self.value(f"mul nsw i64 {left}, {right}", "i")

    def divide(self, left: Integer, right: Integer) -> tuple[Integer, Integer]:
        """Returns quotient and remainder of a non-negative `left` by a positive `right`."""
        if isinstance(left, int) and isinstance(right, int):
            return left // right, left % right
        if right == 1:
            return left, 0
        return self.value(f"udiv i64 {left}, {right}", "i"), self.value(f"urem i64 {left}, {right}", "i")

    def unravel(self, number: Integer, *extents: Integer) -> list[Integer]:
        """Splits a row-major `number` into positions along axes; `extents` are those of all axes but the first."""
        places: list[Integer] = []
        for extent in reversed(extents):
            number, place = self.divide(number, extent)
            places.insert(0, place)
        return [number, *places]

    def minimum(self, left: Integer, right: Integer) -> Integer:
        return self._extreme(min, "slt", left, right)

    def maximum(self, left: Integer, right: Integer) -> Integer:
        return self._extreme(max, "sgt", left, right)

    def _extreme(self, known: Callable[[int, int], int], relation: str, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return known(left, right)
        holds = self.value(f"icmp {relation} i64 {left}, {right}", "c")
        return self.value(f"select i1 {holds}, i64 {left}, i64 {right}", "i")

    def share(self, number: Integer, size: Integer, total: Integer) -> tuple[Integer, Integer]:
        """Returns the begin and end of part `number`, when `total` is cut into parts of `size`."""
        first = self.multiply(number, size)
        return first, self.minimum(self.add(first, size), total)

    def pointer(self, base: str, offset: Integer, element: str) -> str:
        """Returns the address `offset` elements of type `element` past `base`."""
        return base if offset == 0 else self.value(f"getelementptr {element}, ptr {base}, i64 {offset}", "p")

    def argument(self, word: int, kind: str = "ptr") -> str:
        """Loads word `word` of the kernel's argument block."""
        return self.value(f"load {kind}, ptr {self.pointer('%arguments', word, 'i64')}", "a")

    # Loops and branches.

    @contextmanager
    def loop(self, start: Integer, stop: Integer, step: int = 1, carried: Sequence[Typed] = ()) -> Iterator[Loop]:
        """A counted loop over [start, stop); `carried` lists (type, first value). After the loop, `next` holds the last
        values.

        A loop with known bounds that runs once is written without branches; a loop with unknown bounds is guarded.
        """
        known = isinstance(start, int) and isinstance(stop, int)
        if known and not int(start) < int(stop):
            raise ValueError("a loop with known bounds must run at least once")
        if known and int(start) + step >= int(stop):
            yield Loop(start, [first for _, first in carried], [])
            return
        before, head, after = self.block, self.fresh("loop"), self.fresh("done")
        if known:
            self.branch(head)
        else:
            self.branch_if(self.value(f"icmp slt i64 {start}, {stop}", "c"), head, after)
        self.label(head)
        index, following = (f"%{self.fresh('n')}" for _ in range(2))
        values = [f"%{self.fresh('x')}" for _ in carried]
        place = len(self.lines)
        body = Loop(index, values, [])
        yield body
        self.emit(f"{following} = add nsw i64 {index}, {step}")
        more, latch = self.value(f"icmp slt i64 {following}, {stop}", "c"), self.block
        self.branch_if(more, head, after)
        heads = [f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"]
        for (kind, first), value, successor in zip(carried, values, body.next, strict=True):
            heads.append(f"  {value} = phi {kind} [ {first}, %{before} ], [ {successor}, %{latch} ]")
        self.lines[place:place] = heads
        self.label(after)
        if not known:
            body.next = [
                self.value(f"phi {kind} [ {first}, %{before} ], [ {successor}, %{latch} ]", "x")
                for (kind, first), successor in zip(carried, body.next, strict=True)
            ]

    @contextmanager
    def when(self, condition: str, name: str = "") -> Iterator[None]:
        """A block that runs if `condition` (an i1) holds; `name` describes it in its labels."""
        inside, after = (
            self.fresh(hint) for hint in ((f"{name}.then.", f"{name}.after.") if name else ("then", "end"))
        )
        self.branch_if(condition, inside, after)
        self.label(inside)
        yield
        self.branch(after)
        self.label(after)

    @contextmanager
    def unless(self, condition: str) -> Iterator[None]:
        """A block that runs if `condition` doesn't hold."""
        with self.when(self.value(f"xor i1 {condition}, true", "c")):
            yield

    def cut(
        self, index: Integer, total: Integer, tile: int, totals: Sequence[int] = (), last_differs: bool = False
    ) -> Iterator[tuple[int, bool]]:
        """Yields each possible size of the tile at `index`, inside the branch for that size, and whether it is the last
        tile.

        A `total` that is a register takes one of the values `totals`. `last_differs`: a last tile of full size has its
        own branch.
        """
        if isinstance(total, int):
            last = (total - 1) // tile * tile
            if total - last == tile and not (last_differs and last):
                yield tile, last_differs
                return
            if isinstance(index, int):
                yield (tile, False) if index < last else (total - last, True)
                return
            if last:
                with self.when(self.value(f"icmp slt i64 {index}, {last}", "c")):
                    yield tile, False
                with self.when(self.value(f"icmp sge i64 {index}, {last}", "c")):
                    yield total - last, True
            else:
                yield total, True
            return
        sizes = sorted({total % tile for total in totals if total % tile} | {tile for total in totals if total >= tile})
        rest = self.minimum(self.subtract(total, index), tile)
        for size in sizes:
            with self.when(self.value(f"icmp eq i64 {rest}, {size}", "c")):
                yield size, size < tile

    def places(self, index: Integer, possible: Sequence[int]) -> Iterator[int]:
        """Yields each value that `index` may have, inside the branch for that value."""
        for place in possible:
            if len(possible) == 1 or index == place:
                yield place
            elif not isinstance(index, int):
                with self.when(self.value(f"icmp eq i64 {index}, {place}", "c")):
                    yield place


def internal(text: str, name: str) -> str:
    """Returns the module `text` with its exported function `name` made internal."""
    return text.replace(f"define void @{name}(", f"define internal void @{name}(", 1)


def joined(texts: Iterable[str]) -> str:
    """Merges modules, which may share helpers, into one that has each item once."""
    return "\n".join(dict.fromkeys(item for text in texts for item in _items(text)))


def _items(text: str) -> list[str]:
    """Returns the definitions, declarations and metadata of a module."""
    items: list[str] = []
    is_open = False
    for line in text.splitlines():
        if is_open:
            items[-1] += f"\n{line}"
        elif line:
            items.append(line)
            is_open = line.startswith("define")
        is_open = is_open and line != "}"
    return items
