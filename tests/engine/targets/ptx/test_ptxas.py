"""Kernels of primitives, recipes and headline workloads, assembled by `ptxas`: valid, without a stack and spills."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.golden.lowering import graph_of
from tests.engine.golden.networks import PROGRAMS, recipe
from tests.engine.golden.program import Program
from tests.engine.samples import samples
from tests.engine.targets.ptx import ptxas
from tests.engine.targets.ptx.device import EmulatedDevice
from tests.engine.targets.ptx.test_primitives import LOWERED, emulated
from trainer.configs import RecipeIndex
from trainer.engine.program.work import KernelSource
from trainer.engine.targets.ir.writer import joined
from trainer.engine.targets.ptx.assembly import assembled

MOST_REGISTERS = 255
MOST_SHARED = 48 << 10
MOST_THREADS = 1024
BATCH = 200
PROCESSORS = ("sm_80", "sm_90a", "sm_100a")
HEADLINES = (
    "ResNet-50 training", "wide ResNet training, tiles", "small ResNet training, float16", "pix2pix training",
    "LSGAN training", "LSGAN training, tiles", "attention", "attention, pairs", "depthwise",
)  # fmt: skip

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


def kernels_of(*programs: Program) -> dict[KernelSource, int]:
    """Different kernels of the steps of programs, and the threads of their blocks."""
    device = EmulatedDevice(flush=True, tensor_cores=("bfloat16", "float16"))
    launches = []
    for program in programs:
        graph = graph_of(program)
        launches += device.lowered(graph.results, graph.updates).launches
    return {launch.source: launch.threads for launch in launches}


def check(processor: str, sources: Sequence[KernelSource], folder: Path) -> None:
    for first in range(0, len(sources), BATCH):
        batch = sources[first : first + BATCH]
        text = assembled(joined(source.render(f"k{number}") for number, source in enumerate(batch)), processor)
        assert not re.findall(r"^\s*(?:add|sub|mul|fma)\.(?:ftz\.)?f(?:32|64)\s", text, re.MULTILINE)
        assert ".local" not in text
        found = ptxas.usage(text, processor, folder)
        assert len(found) == len(batch)
        wrong = {batch[int(name[1:])].key: each for name, each in found.items() if each.stack or each.spilled}
        assert not wrong
        assert max(each.registers for each in found.values()) <= MOST_REGISTERS
        assert max(each.shared for each in found.values()) <= MOST_SHARED


def test_kernels_of_primitives_and_of_digits_are_valid_for_an_h100(tmp_path: Path) -> None:
    sources = [*kernels_of_primitives(1), *kernels_of(Program("digits", recipe("digits", "data.batch_size=16")))]
    assert len(sources) > len(LOWERED) / 2
    check("sm_90a", sources, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("processor", PROCESSORS)
def test_kernels_of_primitives_are_valid_for_each_processor(processor: str, tmp_path: Path) -> None:
    check(processor, kernels_of_primitives(12), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("processor", PROCESSORS)
def test_kernels_of_recipes_and_of_headline_workloads_are_valid(processor: str, tmp_path: Path) -> None:
    check(processor, kernels_of_workloads(), tmp_path)


@functools.cache
def kernels_of_workloads() -> list[KernelSource]:
    """Different kernels of a step of each recipe and of ResNet-50, pix2pix, LSGAN and attention, some in 16 bits."""
    names = RecipeIndex.built_in().names()
    assert len(names) > 10
    found = kernels_of(
        *(Program(name, recipe(name, "data.batch_size=2")) for name in names),
        *(program for program in PROGRAMS if program.name in HEADLINES),
    )
    assert max(found.values()) <= MOST_THREADS
    return list(found)


def test_what_is_not_valid_is_reported(tmp_path: Path) -> None:
    text = ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k() { add.s32 %r1, %r2, %r3; ret; }\n"
    with pytest.raises(AssertionError, match="Unknown symbol '%r1'"):
        ptxas.usage(text, "sm_90a", tmp_path)
