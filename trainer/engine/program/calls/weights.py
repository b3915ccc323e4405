"""Weights brought into the form that a template wants, once for all launches that read them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from trainer.engine.program.launch import Address, KernelSource, Launch
from trainer.engine.targets.cpu.kernels import depthwise, winograd
from trainer.engine.targets.cpu.kernels.depthwise import DepthwiseSpec
from trainer.engine.targets.cpu.kernels.epilogue import Epilogue
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec

if TYPE_CHECKING:
    from trainer.engine.graph.dtypes import DType
    from trainer.engine.program.lower import Lowering


def transformed_weights(lowering: Lowering, spec: WinogradSpec, packed: Address) -> Address:
    """The transform of packed weights for Winograd's algorithm: the same whatever the images, as a pyramid's levels."""
    any_image = replace(spec.convolution, images=1, spatial=(4, 4), padding=((1, 1), (1, 1)), epilogue=Epilogue())
    plain = replace(spec, convolution=any_image)
    size, tasks, label = winograd.weights_size(plain), winograd.weight_tasks(plain), "transform weights"
    label = f"{label} {plain.outputs}x{plain.outputs}"
    dtype = plain.convolution.dtype
    return _formed(
        lowering, packed, plain, lambda name: winograd.render_weights(plain, name), size, dtype, tasks, label
    )


def exchanged_weights(lowering: Lowering, spec: DepthwiseSpec, weights: Address) -> Address:
    """Weights of small groups as the input gradient reads them."""
    plain = replace(spec, convolution=replace(spec.convolution, epilogue=Epilogue()))
    tasks, dtype = depthwise.weight_tasks(plain), plain.convolution.dtype
    size = tasks * plain.group * plain.convolution.filters
    return _formed(
        lowering, weights, plain, lambda name: depthwise.render_weights(plain, name), size, dtype, tasks, "exchange"
    )


def _formed(
    lowering: Lowering,
    source: Address,
    key: Hashable,
    render: Callable[[str], str],
    size: int,
    dtype: DType,
    tasks: int,
    label: str,
) -> Address:
    place = source.buffer, source.byte_offset, key
    known = lowering.packed.get(place)
    if known is not None:
        return Address(known)
    target = lowering.temporary(size, dtype, label)
    kernel = KernelSource(("weights", key), render)
    lowering.emit(Launch(kernel, [source, Address(target)], tasks, (source.buffer,), (target,), label))
    lowering.packed[place] = target
    return Address(target)
