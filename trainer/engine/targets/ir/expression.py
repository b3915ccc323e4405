"""Renders the body of a kernel, a list of `spec.Instruction`, on vectors of a fixed number of virtual lanes.

The body is always written for `LANES` lanes, whatever the dtype and the machine, and LLVM splits them; so no result
depends on the width of the host's registers. A value in a body has the *compute* type of its dtype: bool is i1;
bfloat16 and float16 are float, with values rounded to the dtype; complex numbers are integers that hold the bits of
both parts, the real part in the lower half; all other dtypes keep their type. `widen` and `narrow` convert from and to
the *memory* type (bool i8, bfloat16 and float16 i16).

Conversions: float to integer truncates toward zero, saturates at the integer's range, and NaN gives 0; float to bool
is "not equal to zero"; any dtype is converted to bfloat16 or float16 through float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trainer.engine.graph import half
from trainer.engine.graph.dtypes import DType, bool_
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.ir import integers, mathematics, powers, remainders, trigonometry
from trainer.engine.targets.ir.vectors import Floats, Integers, Vectors, float_literal, splat, to_float32
from trainer.engine.targets.ir.writer import Writer, mangled, vector

LANES = 16

COMPUTE = {
    "bool": "i1", "uint8": "i8", "int8": "i8", "uint16": "i16", "int16": "i16", "uint32": "i32", "int32": "i32",
    "uint64": "i64", "int64": "i64", "complex64": "i64", "complex128": "i128",
    "bfloat16": "float", "float16": "float", "float32": "float", "float64": "double",
}  # fmt: skip
MEMORY = {**COMPUTE, "bool": "i8", "bfloat16": "i16", "float16": "i16"}


def compute_type(dtype: DType, lanes: int = LANES) -> str:
    """The LLVM vector type in which values of `dtype` are computed."""
    return vector(COMPUTE[dtype.name], lanes)


def memory_type(dtype: DType, lanes: int = LANES) -> str:
    """The LLVM vector type in which values of `dtype` are stored in memory."""
    return vector(MEMORY[dtype.name], lanes)


def lanes_of(dtype: DType) -> int:
    """The number of elements of a 64-byte vector, which is an accumulator of the contractions on every host."""
    return 64 // dtype.itemsize


def literal(dtype: DType, value: float) -> str:
    """A Python number as a scalar constant of `dtype`'s compute type; integers wrap, floats round."""
    if dtype.is_float:
        return float_literal(_half(value, dtype) if dtype.is_half else value, COMPUTE[dtype.name])
    if dtype.kind == "bool":
        return "true" if value else "false"
    bits = 8 * dtype.itemsize
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def constant(dtype: DType, value: float) -> str:
    """A Python number as a constant vector of `dtype`'s compute type."""
    return splat(COMPUTE[dtype.name], literal(dtype, value))


def _half(value: float, dtype: DType) -> float:
    """Rounds a Python number to a 16-bit `dtype`, through float32."""
    return float(half.rounded(np.asarray(to_float32(value), np.float32), dtype))


def widen(writer: Writer, value: str, dtype: DType, lanes: int = LANES) -> str:
    """Converts from the memory type to the compute type."""
    memory = memory_type(dtype, lanes)
    if dtype.name == "bool":
        return writer.value(f"icmp ne {memory} {value}, {splat('i8', '0')}")
    if dtype.name == "bfloat16":
        bits = vector("i32", lanes)
        shifted = writer.value(f"shl {bits} {writer.value(f'zext {memory} {value} to {bits}')}, {splat('i32', '16')}")
        return writer.value(f"bitcast {bits} {shifted} to {vector('float', lanes)}")
    if dtype.name == "float16":
        cast = writer.value(f"bitcast {memory} {value} to {vector('half', lanes)}")
        return writer.value(f"fpext {vector('half', lanes)} {cast} to {vector('float', lanes)}")
    return value


def narrow(writer: Writer, value: str, dtype: DType, lanes: int = LANES) -> str:
    """Converts from the compute type to the memory type; 16-bit floats must be rounded already."""
    memory = memory_type(dtype, lanes)
    if dtype.name == "bool":
        return writer.value(f"zext {vector('i1', lanes)} {value} to {memory}")
    if dtype.name == "bfloat16":
        bits = vector("i32", lanes)
        cast = writer.value(f"bitcast {vector('float', lanes)} {value} to {bits}")
        shifted = writer.value(f"lshr {bits} {cast}, {splat('i32', '16')}")
        return writer.value(f"trunc {bits} {shifted} to {memory}")
    if dtype.name == "float16":
        cut = writer.value(f"fptrunc {vector('float', lanes)} {value} to {vector('half', lanes)}")
        return writer.value(f"bitcast {vector('half', lanes)} {cut} to {memory}")
    return value


def round_to_half(writer: Writer, value: str, dtype: DType, lanes: int = LANES) -> str:
    """Rounds floats to a 16-bit `dtype` (F16C and every NEON have instructions for float16)."""
    if dtype.name == "bfloat16":
        return round_to_bfloat16(writer, value, lanes)
    return widen(writer, narrow(writer, value, dtype, lanes), dtype, lanes)


def round_to_bfloat16(writer: Writer, value: str, lanes: int = LANES) -> str:
    """Rounds floats to the nearest bfloat16, ties to even; NaN stays NaN."""
    f = Floats(writer, "float", lanes)
    bits = f.to_bits(value)
    odd = f.integer_operation("and", f.integer_operation("lshr", bits, f.whole(16)), f.whole(1))
    rounded = f.integer_operation("add", f.integer_operation("add", bits, f.whole(0x7FFF)), odd)
    quiet = f.integer_operation("or", bits, f.whole(0x00400000))
    chosen = writer.value(
        f"select {vector('i1', lanes)} {f.compare('uno', value, value)}, {f.bits} {quiet}, {f.bits} {rounded}"
    )
    return f.from_bits(f.integer_operation("and", chosen, f.whole(-0x10000)))


@dataclass
class Step(Vectors):
    """One instruction while it is rendered, with operations on the type of its arguments."""

    instruction: Instruction
    arguments: list[Instruction]
    values: list[str]
    """The values of the arguments."""

    @property
    def dtype(self) -> DType:
        """The arguments' dtype (they agree, except for `where`, whose condition comes first)."""
        return self.arguments[-1].dtype

    @property
    def floats(self) -> Floats:
        return Floats(self.writer, self.element, self.lanes)

    @property
    def integers(self) -> Integers:
        return Integers(self.writer, self.element, self.lanes, self.dtype.kind == "int")

    def emit(self, operation: str, *values: str) -> str:
        """Emits `operation` on `values`, or on the arguments if there are none."""
        return self.operation(operation, *(values or self.values))

    def constant(self, value: float) -> str:
        return constant(self.dtype, value)


Renderer = Callable[[Step], str]


def _arithmetic(for_float: str, for_integer: str, for_bool: str) -> Renderer:
    return lambda s: s.emit(for_float if s.dtype.is_float else for_bool if s.dtype.kind == "bool" else for_integer)


def _compare(ordered: str, signed: str) -> Renderer:
    def render(s: Step) -> str:
        if s.dtype.is_float:
            return s.emit(f"fcmp {ordered}")
        unsigned = s.dtype.kind != "int" and signed not in ("eq", "ne")
        return s.emit(f"icmp {f'u{signed[1:]}' if unsigned else signed}")

    return render


def _negative(s: Step) -> str:
    return s.floats.negate(s.values[0]) if s.dtype.is_float else s.emit("sub", s.constant(0), s.values[0])


def _abs(s: Step) -> str:
    if s.dtype.is_float:
        return s.floats.unary("fabs", s.values[0])
    return (
        s.select(s.emit("icmp slt", s.values[0], s.constant(0)), _negative(s), s.values[0])
        if s.dtype.kind == "int"
        else s.values[0]
    )


def _sign(s: Step) -> str:
    x = s.values[0]
    if s.dtype.is_float:
        f = s.floats
        unit = f.copysign(f.constant(1.0), x)
        return f.select(f.compare("one", x, f.constant(0.0)), unit, f.add(x, f.constant(0.0)))  # +0 for -0, NaN for NaN
    positive = s.select(s.emit("icmp ne", x, s.constant(0)), s.constant(1), s.constant(0))
    if s.dtype.kind != "int":
        return positive
    return s.select(s.emit("icmp slt", x, s.constant(0)), s.constant(-1), positive)


def _approximation(function: Callable[[Floats, str], str]) -> Renderer:
    return lambda s: function(s.floats, s.values[0])


def _rounding(intrinsic: str) -> Renderer:
    return lambda s: s.floats.unary(intrinsic, s.values[0]) if s.dtype.is_float else s.values[0]


def _truth(s: Step, position: int) -> str:
    """Converts an argument to i1: not equal to zero."""
    dtype, value = s.arguments[position].dtype, s.values[position]
    if dtype.kind == "bool":
        return value
    comparison = "fcmp une" if dtype.is_float else "icmp ne"
    return s.writer.value(f"{comparison} {compute_type(dtype, s.lanes)} {value}, {constant(dtype, 0)}")


def _logical(operation: str) -> Renderer:
    return lambda s: s.logical(operation, _truth(s, 0), _truth(s, 1))


def _classify(predicate: str, limit: float, for_integer: bool) -> Renderer:
    def render(s: Step) -> str:
        if not s.dtype.is_float:
            return constant(bool_, for_integer)
        f = s.floats
        return f.compare(predicate, f.unary("fabs", s.values[0]), f.constant(limit))

    return render


def _extremum(greater: bool) -> Renderer:
    """Maximum or minimum: NaN wins; the first of equal operands (zeros of both signs) wins."""

    def render(s: Step) -> str:
        a, b = s.values
        if not s.dtype.is_float:
            sign = "s" if s.dtype.kind == "int" else "u"
            return s.select(s.emit(f"icmp {sign}{'ge' if greater else 'le'}", a, b), a, b)
        f = s.floats
        # a unless b is strictly beyond it: this is one instruction on x86, and keeps a where a is NaN
        first = f.select(f.compare("ogt" if greater else "olt", b, a), b, a)
        if s.arguments[1].operation == "constant" and s.arguments[1].attributes[0] == s.arguments[1].attributes[0]:
            return first  # no NaN
        return f.select(f.compare("uno", b, b), b, first)

    return render


def _by_kind(
    for_float: Callable[[Floats, str, str], str], for_integer: Callable[[Integers, str, str], str]
) -> Renderer:
    """A function of two arguments that is written for floats and for integers."""

    def render(s: Step) -> str:
        a, b = s.values
        return for_float(s.floats, a, b) if s.dtype.is_float else for_integer(s.integers, a, b)

    return render


def _shift(operation: str) -> Renderer:
    """A shift; a count outside the width shifts all bits out (an arithmetic shift leaves the sign)."""

    def render(s: Step) -> str:
        width = 8 * s.dtype.itemsize
        used = "lshr" if operation == "ashr" and s.dtype.kind == "uint" else operation
        outside = s.emit("icmp uge", s.values[1], s.constant(width))
        if used == "ashr":
            return s.emit(used, s.values[0], s.select(outside, s.constant(width - 1), s.values[1]))
        shifted = s.emit(used, s.values[0], s.select(outside, s.constant(0), s.values[1]))
        return s.select(outside, s.constant(0), shifted)

    return render


def _where(s: Step) -> str:
    """Selects bits as integers: LLVM turns `a < b ? a : b` on floats into a minimum, which flushes subnormals."""
    condition = _truth(s, 0)
    if not s.dtype.is_float:
        return s.select(condition, s.values[1], s.values[2])
    f = s.floats
    a, b = (f.to_bits(value) for value in s.values[1:])
    return f.from_bits(s.writer.value(f"select {s.mask} {condition}, {f.bits} {a}, {f.bits} {b}"))


def cast(writer: Writer, value: str, source: DType, target: DType, lanes: int = LANES) -> str:
    """Converts between compute types; rounds to `target`, including 16-bit floats."""
    if source == target:
        return value
    start, end = compute_type(source, lanes), compute_type(target, lanes)
    if target.kind == "bool":
        comparison = "fcmp une" if source.is_float else "icmp ne"
        return writer.value(f"{comparison} {start} {value}, {constant(source, 0)}")
    if source.is_float and target.is_float:
        result = value
        if start != end:
            result = writer.value(
                f"{'fpext' if source.itemsize < target.itemsize else 'fptrunc'} {start} {value} to {end}"
            )
    elif source.is_float:
        name = f"fpto{'u' if target.kind == 'uint' else 's'}i.sat.{mangled(end)}.{mangled(start)}"
        return writer.intrinsic(name, end, (start, value))
    elif target.is_float:
        result = writer.value(f"{'s' if source.kind == 'int' else 'u'}itofp {start} {value} to {end}")
    elif source.itemsize == target.itemsize and source.kind != "bool":
        return value
    elif source.itemsize > target.itemsize:
        return writer.value(f"trunc {start} {value} to {end}")
    else:
        return writer.value(f"{'s' if source.kind == 'int' else 'z'}ext {start} {value} to {end}")
    return round_to_half(writer, result, target, lanes) if target.is_half else result


def _cast(s: Step) -> str:
    return cast(s.writer, s.values[0], s.dtype, s.instruction.dtype, s.lanes)


def _complex(s: Step) -> str:
    """Packs the bits of both parts into one integer."""
    whole, half_bits = Integers(s.writer, COMPUTE[s.instruction.dtype.name], s.lanes, False), s.floats.bits
    real, imaginary = (
        s.writer.value(f"zext {half_bits} {s.floats.to_bits(value)} to {whole.type}") for value in s.values
    )
    return whole.operation(
        "or", whole.operation("shl", imaginary, whole.constant(4 * s.instruction.dtype.itemsize)), real
    )


def _part(s: Step, shift: int) -> str:
    """Extracts the lower or the upper half of the bits."""
    bits = s.emit("lshr", s.values[0], s.constant(shift * 4 * s.dtype.itemsize)) if shift else s.values[0]
    f = Floats(s.writer, COMPUTE[s.instruction.dtype.name], s.lanes)
    return f.from_bits(s.writer.value(f"trunc {s.type} {bits} to {f.bits}"))


def _nextafter(s: Step) -> str:
    """Moves a by one step toward b in the order of the bits; zero moves to the smallest number of b's sign."""
    f, (a, b) = s.floats, s.values
    bits_a, bits_b = f.to_bits(a), f.to_bits(b)
    sign, rest = f.whole(-(1 << 8 * s.dtype.itemsize - 1)), f.whole((1 << 8 * s.dtype.itemsize - 1) - 1)
    last = f.whole(8 * s.dtype.itemsize - 1)

    def chosen(condition: str, yes: str, no: str) -> str:
        return s.writer.value(f"select {s.mask} {condition}, {f.bits} {yes}, {f.bits} {no}")

    def rank(bits: str) -> str:  # grows with the number; 0 and -0 are neighbors
        return f.integer_operation(
            "xor", bits, f.integer_operation("and", f.integer_operation("ashr", bits, last), rest)
        )

    up = s.writer.value(f"icmp slt {f.bits} {rank(bits_a)}, {rank(bits_b)}")
    away = s.writer.value(f"icmp sge {f.bits} {bits_a}, zeroinitializer")  # up moves a positive number away from zero
    grows = s.logical("xor", s.logical("xor", up, away), splat("i1", "true"))
    moved = f.integer_operation("add", bits_a, chosen(grows, f.whole(1), f.whole(-1)))
    magnitudes = [f.integer_operation("and", bits, rest) for bits in (bits_a, bits_b)]
    zero_a, zero_b = (s.writer.value(f"icmp eq {f.bits} {each}, zeroinitializer") for each in magnitudes)
    smallest = f.integer_operation("or", f.integer_operation("and", bits_b, sign), f.whole(1))
    moved = chosen(zero_a, smallest, moved)
    same = s.writer.value(f"icmp eq {f.bits} {bits_a}, {bits_b}")
    moved = chosen(s.logical("or", same, s.logical("and", zero_a, zero_b)), bits_b, moved)
    return f.select(f.compare("uno", a, b), f.constant(float("nan")), f.from_bits(moved))


def _random_bits(s: Step) -> str:
    key0, key1, index, counter0, counter1 = s.values
    return integers.random_bits(
        s.writer, s.lanes, (key0, key1), index, (counter0, counter1), s.instruction.attributes[0]
    )


RENDERERS: dict[str, Renderer] = {
    "negative": _negative,
    "abs": _abs,
    "sign": _sign,
    "exp": _approximation(mathematics.exp),
    "expm1": _approximation(mathematics.expm1),
    "log": _approximation(mathematics.log),
    "log1p": _approximation(mathematics.log1p),
    "sqrt": _approximation(lambda f, x: f.unary("sqrt", x)),
    "sin": _approximation(trigonometry.sin),
    "cos": _approximation(trigonometry.cos),
    "tanh": _approximation(mathematics.tanh),
    "erf": _approximation(mathematics.erf),
    "logistic": _approximation(mathematics.logistic),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "round": _rounding("roundeven"),
    "trunc": _rounding("trunc"),
    "logical_not": lambda s: s.logical("xor", _truth(s, 0), splat("i1", "true")),
    "bitwise_invert": lambda s: s.emit("xor", s.values[0], s.constant(-1)),
    "isfinite": _classify("olt", float("inf"), True),
    "isinf": _classify("oeq", float("inf"), False),
    "isnan": _classify("uno", 0.0, False),
    "cast": _cast,
    "add": _arithmetic("fadd", "add", "or"),
    "subtract": _arithmetic("fsub", "sub", "xor"),
    "multiply": _arithmetic("fmul", "mul", "and"),
    "divide": lambda s: s.emit("fdiv"),
    "floor_divide": _by_kind(remainders.floor_divide, integers.floor_divide),
    "remainder": _by_kind(remainders.remainder, integers.remainder),
    "power": _by_kind(powers.power, powers.integer_power),
    "atan2": lambda s: trigonometry.atan2(s.floats, *s.values),
    "copysign": lambda s: s.floats.copysign(*s.values),
    "nextafter": _nextafter,
    "complex": _complex,
    "real": lambda s: _part(s, 0),
    "imag": lambda s: _part(s, 1),
    "maximum": _extremum(True),
    "minimum": _extremum(False),
    "equal": _compare("oeq", "eq"),
    "not_equal": _compare("une", "ne"),
    "less": _compare("olt", "slt"),
    "less_equal": _compare("ole", "sle"),
    "greater": _compare("ogt", "sgt"),
    "greater_equal": _compare("oge", "sge"),
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "bitwise_and": lambda s: s.emit("and"),
    "bitwise_or": lambda s: s.emit("or"),
    "bitwise_xor": lambda s: s.emit("xor"),
    "shift_left": _shift("shl"),
    "shift_right": _shift("ashr"),
    "shift_right_logical": _shift("lshr"),
    "where": _where,
    "random_bits": _random_bits,
}

_EXACT_IN_16_BITS = frozenset(
    {"negative", "abs", "sign", "floor", "ceil", "round", "trunc", "maximum", "minimum", "where", "cast"} | {"copysign"}
)


def render_body(
    writer: Writer, instructions: Sequence[Instruction], operand_values: Sequence[str], lanes: int = LANES
) -> list[str]:
    """Writes `instructions` and returns the value of each, in its dtype's compute type.

    `operand_values[i]` is the value of the instruction ("load", (i,)): a vector of the compute type of its dtype.
    No instruction traps or touches memory, so masked lanes may hold any value. Raises `ValueError` for an operation
    that is not in the table.
    """
    values: list[str] = []
    for instruction in instructions:
        if instruction.operation == "load":
            values.append(operand_values[instruction.attributes[0]])
        elif instruction.operation == "constant":
            values.append(constant(instruction.dtype, instruction.attributes[0]))
        else:
            render = RENDERERS.get(instruction.operation)
            if render is None:
                raise ValueError(f"no renderer for the operation {instruction.operation!r}")
            arguments = [instructions[position] for position in instruction.arguments]
            known = [values[position] for position in instruction.arguments]
            result = render(Step(writer, COMPUTE[arguments[-1].dtype.name], lanes, instruction, arguments, known))
            if instruction.dtype.is_half and instruction.operation not in _EXACT_IN_16_BITS:
                result = round_to_half(writer, result, instruction.dtype, lanes)
            values.append(result)
    return values


def combined(writer: Writer, operation: str, dtype: DType, a: str, b: str, lanes: int = LANES) -> str:
    """Writes one element-wise operation on two values of `dtype` and returns its result."""
    body = [
        Instruction("load", (), dtype, (0,)),
        Instruction("load", (), dtype, (1,)),
        Instruction(operation, (0, 1), dtype),
    ]
    return render_body(writer, body, [a, b], lanes)[-1]
