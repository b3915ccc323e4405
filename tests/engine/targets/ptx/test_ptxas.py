"""Kernels of primitives, recipes and headline workloads, assembled by `ptxas`: valid, without a stack and spills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
BATCH = 100
PROCESSORS = ("sm_90a", "sm_100a", "sm_80")
HEADLINES = (
    "ResNet-50 training", "wide ResNet training, tiles", "small ResNet training, float16", "pix2pix training",
    "LSGAN training", "LSGAN training, tiles", "attention", "attention, pairs", "depthwise",
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    ptxas.found() is None, reason="ptxas is not installed: pip install nvidia-cuda-nvcc-cu12 (Linux on x86-64)"
)


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


def different(sources: Iterable[KernelSource]) -> list[KernelSource]:
    """The longest of all kernels with the same instructions, whatever their names, numbers, parameters and order."""
    found: dict[frozenset[str], tuple[int, KernelSource]] = {}
    for source in sources:
        text = source.render("kernel")
        lines = re.sub(r"[%@][\w.]+|0x[0-9A-F]+|\d+", "", text).splitlines()
        kind = frozenset(line for line in lines if not line.startswith("define"))
        found[kind] = max(found.get(kind, (0, source)), (len(text), source), key=lambda each: each[0])
    return [source for _, source in found.values()]


def check(sources: Sequence[KernelSource], folder: Path, *processors: str) -> None:
    """Assembles kernels for each processor; for the second and later ones only where LLVM makes other code for them."""
    for first in range(0, len(sources), BATCH):
        batch = sources[first : first + BATCH]
        module = joined(source.render(f"k{number}") for number, source in enumerate(batch))
        codes = set()
        for processor in processors:
            text = assembled(module, processor)
            code = text.partition(".address_size")[2]
            assert code
            if code in codes:
                continue
            codes.add(code)
            assert not re.findall(r"^\s*(?:add|sub|mul|fma)\.(?:ftz\.)?f(?:32|64)\s", text, re.MULTILINE)
            assert ".local" not in text
            found = ptxas.usage(text, processor, folder)
            assert len(found) == len(batch)
            wrong = {batch[int(name[1:])].key: each for name, each in found.items() if each.stack or each.spilled}
            assert not wrong
            assert max(each.registers for each in found.values()) <= MOST_REGISTERS
            assert max(each.shared for each in found.values()) <= MOST_SHARED


@pytest.mark.full
def test_kernels_of_primitives_and_of_digits_are_valid_for_an_h100(tmp_path: Path) -> None:
    sources = [*kernels_of_primitives(1), *kernels_of(Program("digits", recipe("digits", "data.batch_size=16")))]
    assert len(sources) > len(LOWERED) / 2
    check(sources, tmp_path, "sm_90a")


@pytest.mark.full
def test_kernels_of_primitives_are_valid_for_each_processor(tmp_path: Path) -> None:
    check(different(kernels_of_primitives(12)), tmp_path, *PROCESSORS)


@pytest.mark.full
def test_kernels_of_recipes_and_of_headline_workloads_are_valid(tmp_path: Path) -> None:
    names = RecipeIndex.built_in().names()
    assert len(names) > 10
    found = kernels_of(
        *(Program(name, recipe(name, "data.batch_size=2")) for name in names),
        *(program for program in PROGRAMS if program.name in HEADLINES),
    )
    assert max(found.values()) <= MOST_THREADS
    check(different(found), tmp_path, *PROCESSORS)


def test_what_is_not_valid_is_reported(tmp_path: Path) -> None:
    text = ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k() { add.s32 %r1, %r2, %r3; ret; }\n"
    with pytest.raises(AssertionError, match="Unknown symbol '%r1'"):
        ptxas.usage(text, "sm_90a", tmp_path)
