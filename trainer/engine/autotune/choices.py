"""The cost model's choices, kept on disk: computing one takes about 5 ms, reading it a hundredth of that."""

from __future__ import annotations

import dataclasses
import functools
import json

from trainer.engine.autotune import defaults
from trainer.engine.autotune.defaults import Parameters, Spec
from trainer.engine.autotune.machine import Machine, host_machine
from trainer.engine.devices.cpu import identity, native
from trainer.engine.kernels.contraction import MatmulParameters
from trainer.engine.kernels.convolution import ConvolutionParameters
from trainer.engine.kernels.depthwise import DepthwiseParameters
from trainer.engine.kernels.weight_gradient import WeightGradientParameters
from trainer.engine.kernels.winograd import WinogradParameters

CHOICE = ".choice"
_KINDS: dict[str, type[Parameters]] = {
    kind.__name__: kind
    for kind in (
        MatmulParameters,
        ConvolutionParameters,
        DepthwiseParameters,
        WeightGradientParameters,
        WinogradParameters,
    )
}


@functools.lru_cache(maxsize=4096)
def choose(spec: Spec, machine: Machine | None = None) -> Parameters:
    """What `defaults.choose` gives; computed once for all processes that have the same source."""
    machine = machine or host_machine()
    key = identity.digest((spec, machine))
    if key is None:
        return defaults.choose(spec, machine)
    note = native.kept(key, CHOICE)
    if note is not None:
        kind, values = json.loads(note)
        return _KINDS[kind](**values)
    chosen = defaults.choose(spec, machine)
    native.keep(key, json.dumps([type(chosen).__name__, dataclasses.asdict(chosen)]).encode(), CHOICE)
    return chosen
