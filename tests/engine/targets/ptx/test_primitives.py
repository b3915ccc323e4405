"""Primitives lowered to PTX and executed in the emulator: element-wise results, movement, random numbers, reductions
and products have the bits of the `cpu` device (of NaN any). Products of bfloat16, which the `cpu` device sums by pairs,
are as near to the reference device as those of the `cpu` device.

docs/gpu.md lists what has a kernel; the rest is refused by name.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.samples import Sample, samples
from tests.engine.targets.cpu.test_primitives import check, values
from tests.engine.targets.ptx.device import EmulatedDevice
from trainer import TrainerError
from trainer.engine.graph.dtypes import bfloat16
from trainer.engine.graph.primitives import TABLE
from trainer.engine.targets.cpu.device import CpuDevice

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "gpu.md"
SAME_BITS = ("elementwise", "movement", "source", "marker")
REDUCTIONS = [name for name in TABLE if name.startswith("reduce_") or name in ("argmax", "argmin")]


def listed() -> dict[str, bool]:
    """The primitives of the document's table, and whether it says that they have kernels."""
    rows = re.findall(r"^\| (`.*?) \| (yes|no)\b.*\|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: state == "yes" for names, state in rows for name in re.findall(r"`(\w+)`", names)}


LISTED = listed()
LOWERED = sorted(name for name, is_lowered in LISTED.items() if is_lowered)

emulated = EmulatedDevice()


@pytest.fixture(scope="module")
def cpu() -> CpuDevice:
    return CpuDevice(threads=1)


def has_same_bits(sample: Sample) -> bool:
    name = sample.name
    if name == "matmul":
        return bfloat16 not in (sample.inputs[0].dtype, *sample.attributes)
    return TABLE[name].family in SAME_BITS or name in REDUCTIONS


def compare(sample: Sample, cpu: CpuDevice) -> None:
    if not has_same_bits(sample):
        return check(sample, emulated)  # type: ignore[arg-type]
    node = sample.node()
    (ours,), (expected,) = emulated.evaluate([node]), cpu.evaluate([node])
    found, wanted = values(ours), values(expected)
    np.testing.assert_array_equal(found, wanted)
    if node.dtype.is_float:
        numbers = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))
    return None


def test_the_document_lists_every_primitive() -> None:
    assert set(LISTED) == set(TABLE) - {"buffer"}


@pytest.mark.parametrize("name", LOWERED)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_a_primitive_in_the_emulator_equals_the_cpu(name: str, cpu: CpuDevice, data: st.DataObject) -> None:
    compare(data.draw(samples(name)), cpu)


@pytest.mark.full
@pytest.mark.parametrize("name", LOWERED)
@settings(max_examples=16, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_a_primitive_in_the_emulator_equals_the_cpu_on_more_samples(
    name: str, cpu: CpuDevice, data: st.DataObject
) -> None:
    compare(data.draw(samples(name)), cpu)


@pytest.mark.parametrize("name", sorted(set(LISTED) - set(LOWERED)))
def test_what_has_no_kernel_is_refused_by_name(name: str) -> None:
    refused: list[str] = []

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    @given(data=st.data())
    def lowered(data: st.DataObject) -> None:
        node = data.draw(samples(name)).node()
        if node.size:
            with pytest.raises(TrainerError, match=f"computes {name} yet"):
                emulated.lowered([node])
            refused.append(name)

    lowered()
    assert refused
