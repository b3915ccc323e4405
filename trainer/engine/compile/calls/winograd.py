"""3x3 convolutions in the numerics class "fast": their weights are transformed once, then multiplied point by point."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainer.engine.compile.launch import Address, KernelSource, Launch
from trainer.engine.kernels import winograd
from trainer.engine.kernels.epilogue import Epilogue
from trainer.engine.kernels.winograd import WinogradSpec

if TYPE_CHECKING:
    from trainer.engine.compile.lower import Lowering


def transformed_weights(lowering: Lowering, spec: WinogradSpec, packed: Address) -> Address:
    """The transform of packed weights; made once where several launches read the same."""
    plain = replace(spec, convolution=replace(spec.convolution, epilogue=Epilogue()))
    key = packed.buffer, packed.byte_offset, plain
    known = lowering.packed.get(key)
    if known is not None:
        return Address(known)
    target = lowering.temporary(winograd.weights_size(plain), plain.convolution.dtype, "winograd weights")
    lowering.emit(
        Launch(
            KernelSource(("weights", plain), lambda name: winograd.render_weights(plain, name)),
            [packed, Address(target)],
            winograd.weight_tasks(plain),
            (packed.buffer,),
            (target,),
            f"transform weights {plain.outputs}x{plain.outputs}",
        )
    )
    lowering.packed[key] = target
    return Address(target)
