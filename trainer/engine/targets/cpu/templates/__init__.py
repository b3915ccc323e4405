"""The templates with parameters to choose, one file each: specification, kernel, operands, tasks, cost, and the
parameters worth trying. A new template needs a file, a row here, and the expansion that uses it.
"""

from __future__ import annotations

from typing import Any

from trainer.engine.targets.cpu.template import Template
from trainer.engine.targets.cpu.templates.contraction import TEMPLATE as MATMUL
from trainer.engine.targets.cpu.templates.convolution import TEMPLATE as CONVOLUTION
from trainer.engine.targets.cpu.templates.custom import TEMPLATE as CUSTOM
from trainer.engine.targets.cpu.templates.depthwise import TEMPLATE as DEPTHWISE
from trainer.engine.targets.cpu.templates.depthwise_weights import TEMPLATE as DEPTHWISE_WEIGHTS
from trainer.engine.targets.cpu.templates.few_outputs import TEMPLATE as FEW_OUTPUTS
from trainer.engine.targets.cpu.templates.statistics import TEMPLATE as STATISTICS
from trainer.engine.targets.cpu.templates.weight_gradient import TEMPLATE as WEIGHT_GRADIENT
from trainer.engine.targets.cpu.templates.winograd import TEMPLATE as WINOGRAD
from trainer.engine.targets.cpu.templates.winograd_gradient import TEMPLATE as WINOGRAD_GRADIENT

TEMPLATES = (
    MATMUL,
    CONVOLUTION,
    WEIGHT_GRADIENT,
    STATISTICS,
    FEW_OUTPUTS,
    DEPTHWISE,
    DEPTHWISE_WEIGHTS,
    WINOGRAD,
    WINOGRAD_GRADIENT,
    CUSTOM,
)


def template_of(spec: Any) -> Template:
    """The template that computes a specification."""
    return next(template for template in TEMPLATES if template.computes(spec))
