"""Matrix products and convolutions: specifications for the templates, packing of the right-hand operand, epilogues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engine.autotune import defaults
from trainer.engine.compile.launch import Address, Buffer, KernelSource, Launch
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Layout
from trainer.engine.kernels import contraction, pack
from trainer.engine.kernels.epilogue import Epilogue

if TYPE_CHECKING:
    from trainer.engine.compile.epilogues import Fused
    from trainer.engine.compile.lower import Lowering


def emit_matmul(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """a[..., M, K] @ b[..., K, N], either operand as it lies (transposed, broadcast along batches, sliced)."""
    node = fused.contraction if fused else root
    a, b = (_strided(lowering, source) for source in node.inputs)
    (a_buffer, a_offset, a_strides), (b_buffer, b_offset, b_strides) = a, b
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
        True,
        fused.epilogue if fused else Epilogue(),
    )
    if node.size == 0:
        return
    if spec.depth == 0:
        return lowering.fill(lowering.buffer_of(root), 0)
    right = _packed(lowering, contraction.pack_spec(spec), Address(b_buffer, b_offset * node.dtype.itemsize), node)
    parameters = defaults.choose(spec)
    words = [Address(a_buffer, a_offset * node.dtype.itemsize), Address(right)]
    _launch(
        lowering,
        root,
        fused,
        KernelSource((spec, parameters), lambda name: contraction.render(spec, parameters, name)),
        words,
        contraction.tasks(spec, parameters),
        f"matmul {spec.rows}x{spec.depth}x{spec.columns}",
    )


def _strided(lowering: Lowering, node: Node) -> tuple[Buffer, int, tuple[int, ...]]:
    return lowering.dense(node, lambda strides: True, Layout.row_major(node.ndim))


def _packed(lowering: Lowering, spec: pack.PackSpec, source: Address, node: Node) -> Buffer:
    """The right-hand operand in panels."""
    target = lowering.temporary(spec.size, spec.dtype, f"{node.name} panels")
    lowering.emit(
        Launch(
            KernelSource(spec, lambda name: pack.render(spec, name)),
            [source, Address(target)],
            pack.tasks(spec),
            (source.buffer,),
            (target,),
            "pack",
        )
    )
    return target


def _launch(
    lowering: Lowering,
    root: Node,
    fused: Fused | None,
    source: KernelSource,
    operands: list[Address],
    tasks: int,
    label: str,
    output: Buffer | None = None,
) -> None:
    """Add a contraction's launch: operands, output, then the epilogue's operands."""
    target = output or lowering.buffer_of(root)
    further = [lowering.address(load) for load in fused.loads] if fused else []
    reads = tuple(dict.fromkeys(address.buffer for address in (*operands, *further)))
    lowering.emit(Launch(source, [*operands, Address(target), *further], tasks, reads, (target,), label))
