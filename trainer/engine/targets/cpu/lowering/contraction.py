"""Matrix products and convolutions: chooses their template and converts operands to the form that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Shape
from trainer.engine.graph.storage import CHANNELS_LAST, WEIGHTS, Layout
from trainer.engine.program.epilogues import exchanges
from trainer.engine.program.spec import Epilogue
from trainer.engine.program.views import is_dense
from trainer.engine.program.work import NOTHING, Buffer, Call, View, Work
from trainer.engine.targets.cpu import defaults, templates
from trainer.engine.targets.cpu.kernels import pack, tile_registers, winograd_choice
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction, correlation
from trainer.engine.targets.cpu.kernels.interleave import InterleaveSpec
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine, Templated
from trainer.engine.targets.cpu.templates import contraction, convolution, weight_gradient, winograd_gradient
from trainer.engine.targets.cpu.templates.depthwise import DepthwiseSpec, ExchangedWeights, depthwise
from trainer.engine.targets.cpu.templates.few_outputs import few_outputs
from trainer.engine.targets.cpu.templates.winograd import WinogradWeights


class Attributed(Protocol):
    """A node or a call."""

    @property
    def dtype(self) -> DType: ...

    def attribute(self, name: str) -> Any: ...


def specification(
    node: Attributed, direction: Direction, x_shape: Shape, w_shape: Shape, order: Layout = WEIGHTS,
    epilogue: Epilogue = NOTHING, prologue: Epilogue = NOTHING,
) -> ConvolutionSpec:  # fmt: skip
    """The specification of `node`, a convolution or gradient, for x and w of these shapes; w has the layout `order`."""
    filters, _, rows, columns = w_shape
    return ConvolutionSpec(
        node.dtype, direction, x_shape[0], x_shape[1], (x_shape[2], x_shape[3]), filters, (rows, columns),
        node.attribute("strides"), node.attribute("padding"), node.attribute("dilation"), node.attribute("groups"),
        weight_order=(order.order[0], order.order[1], order.order[2], order.order[3]), epilogue=epilogue,
        prologue=prologue, pairs=node.attribute("precision") is not None,
    )  # fmt: skip


def expand_matmul(expansion: Expansion, work: Work) -> None:
    """Expands a[..., M, K] @ b[..., K, N] with any strides of operands (transposed, broadcast over batches, sliced)."""
    call: Call = work.spec
    left, right = work.reads[:2]
    target = work.writes[0]
    pairs = call.attribute("precision") is not None
    if pairs:
        left = _rows_of_pairs(expansion, left)
    spec = contraction.MatmulSpec(
        call.dtype, call.shape[-2], call.shape[-1], left.shape[-1], (left.strides[-2], left.strides[-1]),
        (right.strides[-2], right.strides[-1]), call.shape[:-2], left.strides[:-2], right.strides[:-2],
        epilogue=work.epilogue, pairs=pairs,
    )  # fmt: skip
    tiled = pairs and expansion.bfloat16 == "tiles" and tile_registers.suits(spec.steps)
    spec = replace(spec, packed=defaults.prefers_packed(spec, expansion.machine), tiled=tiled)
    if target.size == 0:
        return
    if spec.depth == 0:
        return _clear(expansion, target)
    if spec.packed:
        right = _packed(expansion, contraction.pack_spec(spec), right, call)
    label = f"matmul {spec.rows}x{spec.depth}x{spec.columns}"
    _emit(expansion, work, Templated(templates.MATMUL, spec), [left, right], label)


def _rows_of_pairs(expansion: Expansion, view: View) -> View:
    """The left operand, copied unless pairs of neighbors along its rows can be read."""

    def fits(strides: tuple[int, ...]) -> bool:
        return strides[-1] == 1 and not any(step % 2 for step in strides[:-1]) and view.offset % 2 == 0

    return expansion.dense(view, fits, Layout.row_major(view.ndim))


def expand_convolution(expansion: Expansion, work: Work) -> None:
    """Expands the convolution of x[N, C, H, W] with w[K, C/groups, R, S], activations channels-last."""
    _expand_direct(expansion, work, "forward", work.reads[0].shape)


def expand_input_gradient(expansion: Expansion, work: Work) -> None:
    """Expands the gradient with respect to x, which is also the transposed convolution."""
    _expand_direct(expansion, work, "input_gradient", work.spec.shape)


def _expand_direct(expansion: Expansion, work: Work, direction: Direction, x_shape: Shape) -> None:
    call: Call = work.spec
    source, w = work.reads[:2]
    if work.writes[0].size == 0:
        return
    if source.size == 0 or w.size == 0:
        return _clear(expansion, work.writes[0])
    alone = depthwise(specification(call, direction, x_shape, w.shape, WEIGHTS, work.epilogue))
    place, label = _input(expansion, work), _label(call, x_shape, w.shape)
    if alone is not None:
        right = expansion.laid_out(w, WEIGHTS)
        right = _exchanged_weights(expansion, alone, right) if alone.exchanges else right
        return _emit(expansion, work, Templated(templates.DEPTHWISE, alone), [place, right], label)
    w = expansion.dense(w, lambda steps: is_dense(w.shape, steps) is not None, WEIGHTS)
    order = is_dense(w.shape, w.strides)
    assert order is not None
    spec = specification(call, direction, x_shape, w.shape, order, work.epilogue, work.prologue)
    is_fast = expansion.numerics == "fast" and not spec.pairs
    fast = winograd_choice.algorithm(spec, per_item=expansion.per_item) if is_fast else None
    tiles = spec.pairs and expansion.bfloat16 == "tiles"
    tiled = tiles and tile_registers.suits(correlation(spec).group_inputs)
    spec = replace(spec, packed=fast is not None or defaults.prefers_packed(spec, expansion.machine), tiled=tiled)
    right = _packed(expansion, convolution.pack_spec(spec), w, call) if spec.packed else w
    if fast is not None:
        right, label = _transformed_weights(expansion, fast, right), f"{label} winograd {fast.outputs}x{fast.outputs}"
        chosen = Templated(templates.WINOGRAD, fast)
    elif (few := few_outputs(spec)) is not None:
        chosen = Templated(templates.FEW_OUTPUTS, few)
    else:
        chosen = Templated(templates.CONVOLUTION, spec)
    _emit(expansion, work, chosen, [place, right], label)


def expand_weight_gradient(expansion: Expansion, work: Work) -> None:
    """Expands the gradient with respect to w, summed over pixels in blocks that depend only on the shape."""
    call: Call = work.spec
    x, dy = work.reads[:2]
    target = work.writes[0]
    if target.size == 0:
        return
    if x.size == 0 or dy.size == 0:
        return _clear(expansion, target)
    spec = specification(call, "weight_gradient", x.shape, call.shape, prologue=work.prologue)
    if spec.pairs:
        spec, x, dy = _interleaved(expansion, spec, x, dy)
    alone = depthwise(spec)
    fast = winograd_choice.algorithm(spec) if expansion.numerics == "fast" else None
    label, sums = _label(call, x.shape, call.shape), weight_gradient.totals_of(spec)
    if alone is not None:
        chosen = Templated(templates.DEPTHWISE_WEIGHTS, alone)
    elif fast is not None:
        chosen = Templated(templates.WINOGRAD_GRADIENT, fast)
        label, sums = f"{label} winograd {fast.outputs}x{fast.outputs}", winograd_gradient.totals_of(fast)
    else:
        chosen = Templated(templates.WEIGHT_GRADIENT, spec)
    places = [x, dy] if spec.pairs else [_input(expansion, work), expansion.laid_out(dy, CHANNELS_LAST)]
    if not sums.is_needed:
        return _emit(expansion, work, chosen, places, label)
    blocks = View(Buffer(sums.size, call.dtype, "totals"), call.dtype, (sums.size,), (1,))
    _emit(expansion, replace(work, writes=(blocks,)), chosen, places, label)
    combine = Routine.worded(sums, blocks, target)
    expansion.add(Work("reduction", combine, (blocks,), (target,), "combine"))


def _clear(expansion: Expansion, target: View) -> None:
    assert target.buffer is not None
    expansion.fill(target.buffer, 0)


def _input(expansion: Expansion, work: Work) -> View:
    """A convolution's input, channels-last; the input of a prologue already has this layout."""
    return work.reads[0] if work.prologue.body else expansion.laid_out(work.reads[0], CHANNELS_LAST)


def _label(call: Call, x_shape: Shape, w_shape: Shape) -> str:
    sizes = "x".join(map(str, x_shape))
    return f"{call.operation.name} {sizes} {w_shape[0]} {w_shape[2]}x{w_shape[3]}/{call.attribute('strides')[0]}"


def _emit(expansion: Expansion, work: Work, chosen: Templated, operands: Sequence[View], label: str) -> None:
    """Adds a template's item: operands, then those of the epilogue and of the prologue."""
    further, first = work.reads[2:], len(work.epilogue.operands)
    in_place = exchanges(operands, further[:first], work.epilogue, work.writes[0])
    reads = (*operands, *further)
    expansion.add(replace(work, spec=chosen, reads=reads, label=label, in_place=in_place))


# Operands in the form that templates read


def _packed(expansion: Expansion, spec: pack.PackSpec, source: View, call: Call) -> View:
    """Packs the right-hand operand into panels, once for all items that read it the same way."""
    return expansion.prepared(source, spec, "pack", f"{call.operation.name} panels")


def _interleaved(expansion: Expansion, spec: ConvolutionSpec, x: View, dy: View) -> tuple[ConvolutionSpec, View, View]:
    """Interleaves the operands as pairs of images, once for all weight gradients that read them so. A single image
    becomes two: its upper and its lower half.
    """

    def made(view: View, kernel: InterleaveSpec) -> View:
        return expansion.prepared(expansion.laid_out(view, CHANNELS_LAST), kernel, "interleave", f"{view.name} pairs")

    if spec.images > 1:
        x, dy = (made(view, InterleaveSpec.of_images(spec.images, view.size // spec.images)) for view in (x, dy))
        return spec, x, dy
    stride, (top, _) = spec.strides[0], spec.padding[0]
    outputs = -(-dy.shape[2] // 2)
    rows = (outputs - 1) * stride + (spec.window[0] - 1) * spec.dilation[0] + 1
    x = made(x, InterleaveSpec.of_halves(x.size // x.shape[2], x.shape[2], rows, (-top, outputs * stride - top)))
    dy = made(dy, InterleaveSpec.of_halves(dy.size // dy.shape[2], dy.shape[2], outputs, (0, outputs)))
    spatial, padding = (rows, spec.spatial[1]), ((0, 0), spec.padding[1])
    return replace(spec, images=2, spatial=spatial, padding=padding), x, dy


def _transformed_weights(expansion: Expansion, spec: WinogradSpec, packed: View) -> View:
    """Transforms packed weights for Winograd's algorithm, independent of the images: levels of a pyramid share it. With
    stride 2, padding and extent decide which taps a phase of the input gradient has.
    """
    any_image = replace(spec.convolution, images=1, epilogue=NOTHING)
    if any_image.strides == (1, 1):
        any_image = replace(any_image, spatial=(4, 4), padding=((1, 1), (1, 1)))
    kernel = WinogradWeights(replace(spec, convolution=any_image))
    return expansion.prepared(packed, kernel, f"transform weights {spec.outputs}x{spec.outputs}")


def _exchanged_weights(expansion: Expansion, spec: DepthwiseSpec, weights: View) -> View:
    """Weights of small groups in the form that the input gradient reads."""
    plain = replace(spec.convolution, epilogue=NOTHING)
    return expansion.prepared(weights, ExchangedWeights(replace(spec, convolution=plain)), "exchange")
