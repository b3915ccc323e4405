"""The kernels of all primitives that have one, assembled by `ptxas` in one batch: valid, without a stack and spills."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.samples import samples
from tests.engine.targets.ptx import ptxas
from tests.engine.targets.ptx.test_primitives import LOWERED, emulated
from trainer.engine.program.work import KernelSource
from trainer.engine.targets.ir.writer import joined
from trainer.engine.targets.ptx.assembly import assembled

MOST_REGISTERS = 255

pytestmark = pytest.mark.skipif(
    ptxas.found() is None, reason="ptxas is not installed: pip install nvidia-cuda-nvcc-cu12 (Linux on x86-64)"
)


@functools.cache
def kernels_of_primitives(examples: int) -> list[KernelSource]:
    """Different kernels of samples of every primitive."""
    sources: dict[KernelSource, None] = {}

    def add(name: str) -> None:
        @settings(
            max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True,
            database=None,
        )  # fmt: skip
        @given(data=st.data())
        def lowered(data: st.DataObject) -> None:
            node = data.draw(samples(name)).node()
            sources.update(dict.fromkeys(launch.source for launch in emulated.lowered([node]).launches))

        lowered()

    for name in LOWERED:
        add(name)
    return list(sources)


def check(processor: str, examples: int, folder: Path) -> None:
    sources = kernels_of_primitives(examples)
    text = assembled(joined(source.render(f"k{number}") for number, source in enumerate(sources)), processor)
    assert not re.findall(r"^\s*(?:add|sub|mul|fma)\.(?:ftz\.)?f(?:32|64)\s", text, re.MULTILINE)
    assert ".local" not in text
    found = ptxas.usage(text, processor, folder)
    assert len(found) == len(sources) > len(LOWERED) / 2
    wrong = {name: each for name, each in found.items() if each.stack or each.spilled}
    assert not wrong
    assert max(each.registers for each in found.values()) <= MOST_REGISTERS


def test_kernels_of_primitives_are_valid_for_an_h100(tmp_path: Path) -> None:
    check("sm_90a", 1, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("processor", ["sm_80", "sm_90a", "sm_100a"])
def test_kernels_of_primitives_are_valid_for_each_processor(processor: str, tmp_path: Path) -> None:
    check(processor, 12, tmp_path)


def test_what_is_not_valid_is_reported(tmp_path: Path) -> None:
    text = ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k() { add.s32 %r1, %r2, %r3; ret; }\n"
    with pytest.raises(AssertionError, match="Unknown symbol '%r1'"):
        ptxas.usage(text, "sm_90a", tmp_path)
