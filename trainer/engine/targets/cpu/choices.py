"""The cost model's choices and candidates, cached on disk: reading them takes a hundredth of the 2 to 13 ms that
computing them takes.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from dataclasses import replace
from typing import Any

from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import defaults, identity
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.machine import Machine, host_machine
from trainer.engine.targets.cpu.templates import template_of

CHOICE = ".choice"

ENOUGH_IMAGES = 8
"""The choice for this many images is also used for more (for 16 images, 36 of 44 kernels of ResNet-18 are the same)."""


def choose(spec: Any, machine: Machine | None = None) -> Any:
    """Returns the first of `candidates`."""
    return candidates(spec, machine)[0]


def candidates(spec: Any, machine: Machine | None = None) -> list[Any]:
    """Returns `defaults.candidates` for at most ENOUGH_IMAGES images."""
    if isinstance(spec, ConvolutionSpec) and spec.images > ENOUGH_IMAGES:
        spec = replace(spec, images=ENOUGH_IMAGES)
    return list(_kept(spec, machine or host_machine()))


@functools.lru_cache(maxsize=4096)
def _kept(spec: Any, machine: Machine) -> tuple[Any, ...]:
    """Returns all candidates, the choice first; they are computed once for all processes with the same source."""
    key = identity.digest((spec, machine))
    if key is None:
        return tuple(defaults.candidates(spec, machine))
    note = disk_cache.kept(key, CHOICE)
    if note is not None:
        parameters = template_of(spec).parameters
        return tuple(parameters(**values) for values in json.loads(note))
    computed = tuple(defaults.candidates(spec, machine))
    names = [field.name for field in dataclasses.fields(template_of(spec).parameters)]
    text = json.dumps([{name: getattr(each, name) for name in names} for each in computed])
    disk_cache.keep(key, text.encode(), CHOICE)
    return computed
