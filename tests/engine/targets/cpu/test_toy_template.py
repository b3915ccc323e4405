"""A template that this file brings along computes products: nothing else knows of it but the table of templates and the
expansion that asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from trainer import engine
from trainer.engine.program.work import Work
from trainer.engine.targets.cpu import choices, templates
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.lowering import expand
from trainer.engine.targets.cpu.lowering.contraction import expand_matmul
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Templated
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template, TemplateKernel
from trainer.engine.targets.cpu.templates import contraction
from trainer.engine.targets.cpu.templates.contraction import MatmulKernel, MatmulParameters, MatmulSpec


@dataclass(frozen=True)
class ToySpec:
    product: MatmulSpec


@dataclass(frozen=True)
class ToyParameters:
    rows: int


class ToyKernel(TemplateKernel[ToySpec, ToyParameters]):
    def __init__(self, spec: ToySpec, parameters: ToyParameters) -> None:
        self.product = MatmulKernel(spec.product, MatmulParameters(1, 1, parameters.rows, 1))

    @property
    def grid(self) -> tuple[int, ...]:
        return self.product.grid

    def render(self, name: str) -> str:
        return self.product.render(name)


def operands(spec: ToySpec) -> list[Argument]:
    return contraction.operands(spec.product)


def candidates(spec: ToySpec, machine: Machine) -> Sequence[ToyParameters]:
    return [ToyParameters(3), ToyParameters(2)]


TOY = Template(ToySpec, ToyParameters, ToyKernel, operands, candidates)


def expand_by_toy(expansion: Expansion, work: Work) -> None:
    expand_matmul(expansion, work)
    product = expansion.works.pop()
    expansion.add(replace(product, spec=Templated(TOY, ToySpec(product.spec.spec)), label=f"toy {product.label}"))


def test_a_further_template_is_a_file_a_row_and_an_expansion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "TEMPLATES", (*templates.TEMPLATES, TOY))
    monkeypatch.setitem(expand._EXPANSIONS, "matmul", expand_by_toy)
    a, b = (np.random.default_rng(0).standard_normal(shape, dtype=np.float32) for shape in ((7, 5), (5, 40)))
    with engine.device(CpuDevice(threads=2)):
        step = engine.trace(lambda x, y: x @ y + 1)
        found = step(a, b).numpy()
    (launch,) = [each for each in step.programs[0].launches if each.label.startswith("toy")]
    assert launch.tunable is not None and launch.tunable.parameters == ToyParameters(3) and launch.tasks == 3 * 3
    spec = launch.tunable.spec
    assert choices.candidates(spec) == choices.candidates(spec) == [ToyParameters(3), ToyParameters(2)]
    with engine.device(CpuDevice(threads=2)):
        monkeypatch.undo()
        np.testing.assert_array_equal(found, engine.trace(lambda x, y: x @ y + 1)(a, b).numpy())
