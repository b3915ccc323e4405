"""The derivative of a scan: a scan in the opposite direction, over the values that the first scan kept.

Each step recomputes cheap values (element-wise work), reads all other values, and accumulates the derivatives with
respect to values that all steps share.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph import primitives as p
from trainer.engine.graph.differentiate import pullback
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.scan import Step, placeholder
from trainer.engine.graph.rewrite import replaced


def of_scan(node: Node, cotangents: Sequence[Node | None]) -> Sequence[Node | None]:
    """The gradient rule: cotangents of all outputs -> cotangents of the inputs."""
    step: Step = node.attributes[0]
    length, reverse = node.attributes[1:]
    constants, before, slices = step.split(step.parameters)
    seeds: dict[int, Node] = {}
    ends: dict[Node, Node] = {}
    stacks: dict[Node, Node] = {}
    for place, (result, cotangent) in enumerate(zip(step.computed, cotangents, strict=True)):
        if place < step.carried and result.dtype.is_inexact:
            seed = seeds[place] = placeholder(result.shape, result.dtype, "cotangent")
            ends[seed] = p.full_like(result, 0.0) if cotangent is None else cotangent
        elif place >= step.carried and cotangent is not None:
            seed = seeds[place] = placeholder(result.shape, result.dtype, "cotangent")
            stacks[seed] = cotangent
    parameters = [parameter for parameter in step.parameters if parameter.dtype.is_inexact]
    found = pullback([step.computed[place] for place in seeds], parameters, list(seeds.values()))
    parts = {parameter: part for parameter, part in zip(parameters, found, strict=True) if part is not None}

    results = [parts.get(each) or p.full_like(each, 0.0) for each in before if each.dtype.is_inexact]
    totals: dict[Node, int] = {}
    for constant in constants:
        if constant in parts:
            total = placeholder(constant.shape, constant.dtype, "total")
            ends[total] = p.full_like(constant, -0.0)  # adding the first part to -0 gives its bits
            totals[constant] = len(results)
            results.append(p.add(total, parts[constant]))
    outputs = {each: len(results) + place for place, each in enumerate(each for each in slices if each in parts)}
    results += [parts[each] for each in outputs]

    first = len(step.results)
    instead = {kept: placeholder(kept.shape, kept.dtype, "kept") for kept in step.kept}
    kept = {leaf: p.output(node, first + place) for place, leaf in enumerate(instead.values())}
    stacks |= kept | dict(zip(slices, step.split(node.inputs)[2], strict=True))
    outside = dict(zip(constants, step.split(node.inputs)[0], strict=True))
    back = p.scan(
        replaced(results, instead),
        ends,
        stacks,
        length,
        reverse=not reverse,
        keep=step.keep,
        outside=outside,
        gradient=of_scan,
    )
    places = {each: place for place, each in enumerate(each for each in before if each.dtype.is_inexact)}
    places |= totals | outputs
    return [p.output(back, places[each]) if each in places else None for each in step.parameters]
