"""Matrix products and convolutions: specifications for the templates, packing of the right-hand operand, epilogues."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.storage import Layout
from trainer.engine.program.calls.weights import exchanged_weights, transformed_weights
from trainer.engine.program.convolutions import CHANNELS_LAST, NOTHING, WEIGHTS, specification
from trainer.engine.program.launch import Address, Buffer, KernelSource, Launch, Tunable
from trainer.engine.program.prologues import Applied, applied_to
from trainer.engine.program.views import is_dense
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.kernels import (
    contraction,
    convolution,
    interleave,
    pack,
    templates,
    tile_registers,
    totals,
    weight_gradient,
    winograd_choice,
    winograd_gradient,
)
from trainer.engine.targets.cpu.kernels.depthwise import depthwise
from trainer.engine.targets.cpu.kernels.epilogue import Epilogue
from trainer.engine.targets.cpu.kernels.few_outputs import few_outputs
from trainer.engine.targets.cpu.kernels.geometry import Direction, correlation

if TYPE_CHECKING:
    from trainer.engine.program.epilogues import Fused
    from trainer.engine.program.lower import Lowering


def emit_matmul(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """a[..., M, K] @ b[..., K, N], either operand as it lies (transposed, broadcast along batches, sliced)."""
    node = fused.contraction if fused else root
    pairs = node.attribute("precision") is not None
    left, a_strides = _rows_of_pairs(lowering, node.inputs[0]) if pairs else lowering.as_it_lies(node.inputs[0])
    right, b_strides = lowering.as_it_lies(node.inputs[1])
    spec = contraction.MatmulSpec(
        node.dtype,
        node.shape[-2],
        node.shape[-1],
        node.inputs[0].shape[-1],
        (a_strides[-2], a_strides[-1]),
        (b_strides[-2], b_strides[-1]),
        node.shape[:-2],
        a_strides[:-2],
        b_strides[:-2],
        epilogue=fused.epilogue if fused else Epilogue(),
        pairs=pairs,
    )
    tiled = pairs and lowering.request.bfloat16 == "tiles" and tile_registers.suits(spec.steps)
    spec = replace(spec, packed=defaults.prefers_packed(spec), tiled=tiled)
    if node.size == 0:
        return
    if spec.depth == 0:
        return lowering.fill(lowering.buffer_of(root), 0)
    if spec.packed:
        right = _packed(lowering, contraction.pack_spec(spec), right, node)
    label = f"matmul {spec.rows}x{spec.depth}x{spec.columns}"
    _tunable(lowering, root, fused, Tunable(templates.MATMUL, spec, lowering.choose(spec)), [left, right], label)


def _rows_of_pairs(lowering: Lowering, node: Node) -> tuple[Address, tuple[int, ...]]:
    """The left operand where pairs of neighbours along its rows can be read; copied where they can't."""

    def fits(strides: tuple[int, ...]) -> bool:
        return strides[-1] == 1 and not any(step % 2 for step in strides[:-1])

    view = lowering.plan.views[node]
    buffer, offset, strides = lowering.dense(
        node, lambda strides: fits(strides) and view.offset % 2 == 0, Layout.row_major(node.ndim)
    )
    return Address(buffer, offset * node.dtype.itemsize), strides


def emit_convolution(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """y of x[N, C, H, W] and w[K, C/groups, R, S], activations channels-last."""
    node = fused.contraction if fused else root
    x, w = node.inputs
    _emit_direct(lowering, root, fused, node, x, w, "forward", x.shape)


def emit_input_gradient(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """The gradient with respect to x, which is the transposed convolution too."""
    node = fused.contraction if fused else root
    dy, w = node.inputs
    _emit_direct(lowering, root, fused, node, dy, w, "input_gradient", node.shape)


def _emit_direct(
    lowering: Lowering,
    root: Node,
    fused: Fused | None,
    node: Node,
    source: Node,
    w: Node,
    direction: Direction,
    x_shape: Shape,
) -> None:
    if root.size == 0:
        return
    if source.size == 0 or w.size == 0:
        return lowering.fill(lowering.buffer_of(root), 0)
    epilogue = fused.epilogue if fused else NOTHING
    applied = _applied(lowering, source)
    alone = depthwise(specification(node, direction, x_shape, w.shape, WEIGHTS, epilogue))
    place, label = _input(lowering, source, applied), _label(node, x_shape, w.shape)
    if alone is not None:
        tunable = Tunable(templates.DEPTHWISE, alone, lowering.choose(alone))
        right = _laid_out(lowering, w, WEIGHTS)
        right = exchanged_weights(lowering, alone, right) if alone.exchanges else right
        return _tunable(lowering, root, fused, tunable, [place, right], label)
    weights, weights_offset, strides = lowering.dense(w, lambda steps: is_dense(w.shape, steps) is not None, WEIGHTS)
    order = is_dense(w.shape, strides)
    assert order is not None
    prologue = applied.prologue if applied else NOTHING
    spec = specification(node, direction, x_shape, w.shape, order, epilogue, prologue)
    fast = winograd_choice.algorithm(spec) if lowering.request.numerics == "fast" and not spec.pairs else None
    tiles = spec.pairs and lowering.request.bfloat16 == "tiles"
    tiled = tiles and tile_registers.suits(correlation(spec).group_inputs)
    spec = replace(spec, packed=fast is not None or defaults.prefers_packed(spec), tiled=tiled)
    right = Address(weights, weights_offset * w.dtype.itemsize)
    if spec.packed:
        right = _packed(lowering, convolution.pack_spec(spec), right, node)
    if fast is not None:
        right, label = transformed_weights(lowering, fast, right), f"{label} winograd {fast.outputs}x{fast.outputs}"
        tunable = Tunable(templates.WINOGRAD, fast, lowering.choose(fast))
    elif (few := few_outputs(spec)) is not None:
        tunable = Tunable(templates.FEW_OUTPUTS, few, lowering.choose(few))
    else:
        tunable = Tunable(templates.CONVOLUTION, spec, lowering.choose(spec))
    _tunable(lowering, root, fused, tunable, [place, right], label, applied=applied)


def emit_weight_gradient(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """The gradient with respect to w, summed over pixels in blocks that the shape fixes."""
    x, dy = root.inputs
    if root.size == 0:
        return
    if x.size == 0 or dy.size == 0:
        return lowering.fill(lowering.buffer_of(root), 0)
    applied = _applied(lowering, x)
    prologue = applied.prologue if applied else NOTHING
    spec = specification(root, "weight_gradient", x.shape, root.shape, prologue=prologue)
    alone = depthwise(spec)
    fast = winograd_choice.algorithm(spec) if lowering.request.numerics == "fast" else None
    label, sums = _label(root, x.shape, root.shape), weight_gradient.totals_of(spec)
    if alone is not None:
        tunable = Tunable(templates.DEPTHWISE_WEIGHTS, alone, lowering.choose(alone))
    elif fast is not None:
        tunable = Tunable(templates.WINOGRAD_GRADIENT, fast, lowering.choose(fast))
        label, sums = f"{label} winograd {fast.outputs}x{fast.outputs}", winograd_gradient.totals_of(fast)
    else:
        tunable = Tunable(templates.WEIGHT_GRADIENT, spec, lowering.choose(spec))
    if spec.pairs:
        places = [_interleaved(lowering, x), _interleaved(lowering, dy)]
    else:
        places = [_input(lowering, x, applied), channels_last(lowering, dy)]
    if not sums.is_needed:
        return _tunable(lowering, root, None, tunable, places, label, applied=applied)
    target = lowering.temporary(sums.size, root.dtype, "totals")
    _tunable(lowering, root, None, tunable, places, label, target, applied)
    sums = replace(sums, convolution=replace(spec, prologue=NOTHING))
    combine = KernelSource(("totals", sums), lambda name: totals.render(sums, name))
    _launch(lowering, root, None, combine, [Address(target)], totals.tasks(sums), "combine")


def _applied(lowering: Lowering, node: Node) -> Applied | None:
    """What the kernels that read `node` have to do to what it is made of, where it isn't stored."""
    return None if node in lowering.plan.views else applied_to(node, lowering.plan.views)


def _input(lowering: Lowering, node: Node, applied: Applied | None) -> Address:
    """A convolution's input, or what its prologue makes it of."""
    return lowering.address(applied.source) if applied else channels_last(lowering, node)


def channels_last(lowering: Lowering, node: Node) -> Address:
    """Activations as the templates read them; copied where they lie otherwise."""
    return _laid_out(lowering, node, CHANNELS_LAST)


def _laid_out(lowering: Lowering, node: Node, layout: Layout) -> Address:
    """A node as it lies where that is dense in `layout`; else copied."""
    wanted = layout.strides(node.shape)

    def fits(strides: tuple[int, ...]) -> bool:
        return all(a == b for a, b, extent in zip(strides, wanted, node.shape, strict=True) if extent != 1)

    buffer, offset, _ = lowering.dense(node, fits, layout)
    return Address(buffer, offset * node.dtype.itemsize)


def _interleaved(lowering: Lowering, node: Node) -> Address:
    """Pairs of images of `node`; made once for all weight gradients that read it."""
    place = channels_last(lowering, node)
    spec = interleave.InterleaveSpec(node.shape[0], node.size // node.shape[0])
    return _prepared(
        lowering,
        spec,
        KernelSource(spec, lambda name: interleave.render(spec, name)),
        place,
        (spec.size, interleave.tasks(spec)),
        f"{node.name} pairs",
    )


def _label(node: Node, x_shape: Shape, w_shape: Shape) -> str:
    sizes = "x".join(map(str, x_shape))
    return f"{node.name} {sizes} {w_shape[0]} {w_shape[2]}x{w_shape[3]}/{node.attribute('strides')[0]}"


def _packed(lowering: Lowering, spec: pack.PackSpec, source: Address, node: Node) -> Address:
    """The right-hand operand in panels; one that is read the same way twice is packed once."""
    kernel = KernelSource(spec, lambda name: pack.render(spec, name))
    return _prepared(lowering, spec, kernel, source, (spec.size, pack.tasks(spec)), f"{node.name} panels")


def _prepared(
    lowering: Lowering,
    spec: pack.PackSpec | interleave.InterleaveSpec,
    kernel: KernelSource,
    source: Address,
    size_and_tasks: tuple[int, int],
    label: str,
) -> Address:
    """An operand as a template reads it, of so many elements of 4 bytes or the operand's own; made once."""
    known = lowering.packed.get((source.buffer, source.byte_offset, spec))
    if known is not None:
        return Address(known)
    size, tasks = size_and_tasks
    dtype = spec.dtype if isinstance(spec, pack.PackSpec) else float32
    target = lowering.temporary(size, dtype, label)
    words: list[int | Address] = [source, Address(target)]
    verb = "pack" if isinstance(spec, pack.PackSpec) else "interleave"
    lowering.emit(Launch(kernel, words, tasks, (source.buffer,), (target,), verb))
    lowering.packed[source.buffer, source.byte_offset, spec] = target
    return Address(target)


def _tunable(
    lowering: Lowering,
    root: Node,
    fused: Fused | None,
    tunable: Tunable,
    operands: list[Address],
    label: str,
    output: Buffer | None = None,
    applied: Applied | None = None,
) -> None:
    """Add the launch of a template's kernel."""
    scratch = tunable.scratch
    _launch(lowering, root, fused, tunable.source, operands, tunable.tasks, label, scratch, output, tunable, applied)


def _launch(
    lowering: Lowering,
    root: Node,
    fused: Fused | None,
    source: KernelSource,
    operands: list[Address],
    tasks: int,
    label: str,
    scratch: int = 0,
    output: Buffer | None = None,
    tunable: Tunable | None = None,
    applied: Applied | None = None,
) -> None:
    """Add a contraction's launch: operands, output, then the epilogue's operands and the prologue's."""
    target = output or lowering.buffer_of(root)
    loads = (*(fused.loads if fused else ()), *(applied.loads if applied else ()))
    further = [lowering.address(load) for load in loads]
    reads = tuple(dict.fromkeys(address.buffer for address in (*operands, *further)))
    words: list[int | Address] = [*operands, Address(target), *further]
    in_place = _exchanges(lowering, fused, operands, target) if fused else ()
    lowering.emit(Launch(source, words, tasks, reads, (target,), label, scratch, tunable, in_place))


def _exchanges(
    lowering: Lowering, fused: Fused, operands: list[Address], target: Buffer
) -> tuple[tuple[Buffer, Buffer], ...]:
    """(output, input) where an epilogue reads an array of the output's size and layout, at each element just before it
    is stored (`epilogue.EpilogueOperand`), and the kernel reads it in no other way.
    """
    places = [lowering.address(load) for load in fused.loads]
    read = [address.buffer for address in (*operands, *places)]
    return tuple(
        (target, place.buffer)
        for operand, place in zip(fused.epilogue.operands, places, strict=True)
        if operand.addressing == "same" and not place.byte_offset and read.count(place.buffer) == 1
        if (place.buffer.size, place.buffer.dtype.itemsize) == (target.size, target.dtype.itemsize)
        if target.in_arena and place.buffer.in_arena
    )
