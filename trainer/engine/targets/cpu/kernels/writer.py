"""The text of one LLVM IR module while it is written: fresh names, declared intrinsics, helpers and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Typed = tuple[str, str]
"""An LLVM type and a value of it: ("<16 x float>", "%v3")."""

_METADATA = "!0 = !{}\n!1 = !{i32 1}\n"
"""What `!invariant.load` and `!nontemporal` refer to."""

_MANGLED = {"float": "f32", "double": "f64", "ptr": "p0"}


def vector(element: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements."""
    return f"<{lanes} x {element}>"


def mangled(type_name: str) -> str:
    """How a type is spelled in an intrinsic's name: "<16 x float>" is "v16f32"."""
    if type_name.startswith("<"):
        lanes, element = type_name[1:-1].split(" x ")
        return f"v{lanes}{mangled(element)}"
    return _MANGLED.get(type_name, type_name)


class Writer:
    """Collects instructions of one function, and what the module needs beside it.

    Values are handed around as strings: a name such as "%v12", or a constant such as "splat (i32 1)".
    """

    def __init__(self, parent: Writer | None = None) -> None:
        self.lines: list[str] = []
        self._counter = 0
        self._declarations: dict[str, str] = parent._declarations if parent else {}
        self._definitions: dict[str, str] = parent._definitions if parent else {}

    def fresh(self, hint: str) -> str:
        """A name not used before in this function, without the leading %."""
        self._counter += 1
        return f"{hint}{self._counter}"

    def emit(self, line: str) -> None:
        """One instruction without a result."""
        self.lines.append(f"  {line}")

    def value(self, expression: str, hint: str = "v") -> str:
        """One instruction; returns the name of its result."""
        name = f"%{self.fresh(hint)}"
        self.lines.append(f"  {name} = {expression}")
        return name

    def label(self, name: str) -> None:
        """Begin the basic block `name`; the block before must have ended with a branch."""
        self.lines.append(f"{name}:")

    def branch(self, target: str) -> None:
        self.emit(f"br label %{target}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        self.emit(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def intrinsic(self, name: str, result: str, *arguments: Typed) -> str:
        """Call `llvm.<name>`, mangled types included in `name`; returns the result's name, "" for void."""
        parameters = ", ".join(kind.split(" align ")[0] for kind, _ in arguments)
        self._declarations[name] = f"declare {result} @llvm.{name}({parameters})"
        return self.call(result, f"llvm.{name}", *arguments)

    def call(self, result: str, function: str, *arguments: Typed) -> str:
        """Call a function of this module."""
        text = f"call {result} @{function}({', '.join(f'{kind} {value}' for kind, value in arguments)})"
        if result == "void":
            self.emit(text)
            return ""
        return self.value(text)

    def lookup(self, kind: str, table: str, bits: str, index: str) -> str:
        """table[index & 15] of sixteen floats, which `targets.cpu.lookups` spells for the machine the code is for."""
        self._declarations["lookup16"] = f"declare {kind} @lookup16({kind}, {bits})"
        return self.call(kind, "lookup16", (kind, table), (bits, index))

    def opaque(self, kind: str, value: str) -> str:
        """`value`, whose making LLVM no longer looks into.

        Loop strength reduction compares every pair of address formulas: nine pointers that it can see through cost
        forty milliseconds of compile time, and give no faster code.
        """
        return self.value(f"freeze {kind} {value}")

    def helper(self, name: str, result: str, parameters: Sequence[Typed], build: Callable[[Writer], None]) -> str:
        """Define the internal function `name` once per module; `build` writes its blocks. Returns `name`."""
        if name not in self._definitions:
            self._definitions[name] = ""
            inner = Writer(self)
            build(inner)
            signature = ", ".join(f"{kind} {value}" for kind, value in parameters)
            body = "\n".join(inner.lines)
            self._definitions[name] = f"define internal {result} @{name}({signature}) nounwind {{\n{body}\n}}"
        return name

    def constant(self, name: str, text: str) -> str:
        """Define the module's constant `name` (`text` = type and initialiser) once; returns the reference "@name"."""
        self._definitions[f"constant {name}"] = f"@{name} = internal unnamed_addr constant {text}, align 64"
        return f"@{name}"

    def module(self, name: str, parameters: str = "ptr noalias %arguments, i64 %task") -> str:
        """The finished module, exporting `void name(parameters)` made of the lines written so far."""
        function = f"define void @{name}({parameters}) nounwind {{\n" + "\n".join(self.lines) + "\n}"
        return "\n".join([*self._definitions.values(), function, *self._declarations.values(), _METADATA])
