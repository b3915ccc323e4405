"""The cost model's choices and candidates, kept on disk: computing those of a kernel takes 2 to 13 ms, reading them a
hundredth of that.
"""

from __future__ import annotations

import dataclasses
import functools
import json

from trainer.engine.targets.cpu import defaults, identity, native
from trainer.engine.targets.cpu.defaults import Parameters, Spec
from trainer.engine.targets.cpu.kernels.contraction import MatmulParameters
from trainer.engine.targets.cpu.kernels.convolution import ConvolutionParameters
from trainer.engine.targets.cpu.kernels.depthwise import DepthwiseParameters
from trainer.engine.targets.cpu.kernels.few_outputs import FewOutputsParameters
from trainer.engine.targets.cpu.kernels.weight_gradient import WeightGradientParameters
from trainer.engine.targets.cpu.kernels.winograd import WinogradParameters
from trainer.engine.targets.cpu.kernels.winograd_gradient import WinogradGradientParameters
from trainer.engine.targets.cpu.machine import Machine, host_machine

CHOICE = ".choice"
_KINDS: dict[str, type[Parameters]] = {
    kind.__name__: kind
    for kind in (
        MatmulParameters,
        ConvolutionParameters,
        DepthwiseParameters,
        FewOutputsParameters,
        WeightGradientParameters,
        WinogradParameters,
        WinogradGradientParameters,
    )
}


def choose(spec: Spec, machine: Machine | None = None) -> Parameters:
    """What `defaults.choose` gives."""
    return _kept(spec, machine or host_machine())[0]


def candidates(spec: Spec, machine: Machine | None = None) -> list[Parameters]:
    """What `defaults.candidates` gives."""
    return list(_kept(spec, machine or host_machine()))


@functools.lru_cache(maxsize=4096)
def _kept(spec: Spec, machine: Machine) -> tuple[Parameters, ...]:
    """All candidates, the choice first; computed once for all processes that have the same source."""
    key = identity.digest((spec, machine))
    if key is None:
        return tuple(defaults.candidates(spec, machine))
    note = native.kept(key, CHOICE)
    if note is not None:
        kind, *found = json.loads(note)
        return tuple(_KINDS[kind](**values) for values in found)
    computed = tuple(defaults.candidates(spec, machine))
    text = json.dumps([type(computed[0]).__name__, *map(dataclasses.asdict, computed)])
    native.keep(key, text.encode(), CHOICE)
    return computed
