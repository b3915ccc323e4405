"""Tiles and tasks of convolutions with one or few channels a group."""

from __future__ import annotations

import math

from trainer.engine.targets.cpu.costs.cycles import TASK_OVERHEAD, balance, pieces, steps
from trainer.engine.targets.cpu.costs.ranking import best
from trainer.engine.targets.cpu.kernels import depthwise, depthwise_weights
from trainer.engine.targets.cpu.kernels.depthwise import DepthwiseParameters, DepthwiseSpec
from trainer.engine.targets.cpu.kernels.geometry import correlation
from trainer.engine.targets.cpu.machine import Machine


def depthwise_parameters(spec: DepthwiseSpec, machine: Machine) -> tuple[DepthwiseParameters, ...]:
    """Tiles along a row by what they read, tasks by their rows."""
    convolution, panels = spec.convolution, depthwise.vectors_of(spec)
    products = math.prod(convolution.window) * math.prod(convolution.output_spatial) * convolution.images * spec.group
    if convolution.direction == "weight_gradient":
        options: list[tuple[float, DepthwiseParameters]] = []
        for task_vectors in steps(1, panels):
            parameters = DepthwiseParameters(1, 1, task_vectors)
            tasks = depthwise_weights.tasks(spec, parameters)
            options.append(((products * panels / 2 + tasks * TASK_OVERHEAD) * balance(tasks), parameters))
        return best(options)
    form = correlation(convolution)
    rows = max(phase.count for phase in form.rows.phases)
    width = max(phase.count for phase in form.columns.phases)
    factors = convolution.window[1] * spec.group
    most = max(1, min(width, machine.vectors - 2 - (factors if 2 * factors < machine.vectors else spec.group)))
    options = []
    for tile_columns in range(max(1, most // 2), most + 1):
        reads = sum(size + convolution.window[1] + 4 for size, many in pieces(width, tile_columns) for _ in range(many))
        for task_rows in steps(1, rows):
            for task_vectors in {panels, -(-panels // 2)}:
                parameters = DepthwiseParameters(tile_columns, task_rows, task_vectors)
                tasks = depthwise.tasks(spec, parameters)
                total = (products * panels * reads / width + tasks * TASK_OVERHEAD) * balance(tasks)
                options.append((total * (2 - task_vectors / panels), parameters))
    return best(options)
