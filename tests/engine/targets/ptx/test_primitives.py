"""Primitives lowered to PTX and executed in the emulator: results have the bits of the `cpu` device (of NaN any).
Products of 16-bit floats and gradients of weights, which the `cpu` device sums in another order, are as near to the
reference device as those of the `cpu` device.

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
from tests.engine.targets.cpu.test_primitives import check, reference, values
from tests.engine.targets.ptx.device import EmulatedDevice
from tests.engine.test_gradients import DIFFERENTIABLE, leaf, smooth
from trainer.engine.graph import primitives as p
from trainer.engine.graph.differentiate import gradients
from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.graph.node import make_node
from trainer.engine.graph.primitives import BUNDLES, TABLE
from trainer.engine.targets import Device
from trainer.engine.targets.cpu.device import CpuDevice

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "gpu.md"


def listed() -> dict[str, bool]:
    """The primitives of the document's table, and whether it says that they have kernels."""
    rows = re.findall(r"^\| (`.*?) \| (yes|refused)\b.*\|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: state == "yes" for names, state in rows for name in re.findall(r"`(\w+)`", names)}


LISTED = listed()
LOWERED = sorted(name for name, is_lowered in LISTED.items() if is_lowered and name in TABLE)
REFUSED = {"host_call", "custom"}

emulated = EmulatedDevice()


@pytest.fixture(scope="module")
def cpu() -> CpuDevice:
    return CpuDevice(threads=1)


def has_same_bits(sample: Sample) -> bool:
    """Whether the CPU sums in the same order: not products of 16-bit floats, nor gradients of weights."""
    if sample.name == "convolution_weight_gradient":
        return False
    if TABLE[sample.name].family == "contraction":
        return not any(
            dtype.is_half for dtype in (sample.inputs[0].dtype, *sample.attributes) if isinstance(dtype, DType)
        )
    return True


def compare(sample: Sample, cpu: CpuDevice, device: Device = emulated) -> None:
    if not has_same_bits(sample):
        return check(sample, device)  # type: ignore[arg-type]
    node = sample.node()
    (ours,), (expected,) = device.evaluate([node]), cpu.evaluate([node])
    found, wanted = values(ours), values(expected)
    np.testing.assert_array_equal(found, wanted)
    if node.dtype.is_float:
        numbers = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))
    return None


def test_each_primitive_has_a_kernel_or_is_refused() -> None:
    """Those of the table are executed below, the others in test_steps.py, where refusals are, too."""
    outside = {"buffer", "output"}  # memory, and a result of several
    assert set(LISTED) == (TABLE.keys() | BUNDLES.keys() | {"scan", "host_call", "custom"}) - outside
    assert {name for name, is_lowered in LISTED.items() if not is_lowered} == REFUSED


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


SMOOTH = sorted(set(LOWERED) & set(DIFFERENTIABLE))


def compare_gradients(name: str, sample: Sample, device: Device) -> None:
    """The primitive and its gradients, in float32 and where it is smooth, next to the reference; the cotangent is
    random.
    """
    random = np.random.default_rng(0)
    arrays, places, attributes = smooth(sample, random)
    inputs = [leaf(each.astype(np.float32) if each.dtype == np.float64 else each) for each in arrays]
    y = make_node(TABLE[name], tuple(inputs), (float32,) if name == "cast" else attributes)
    moved = [inputs[place] for place in places]
    cotangent = leaf(random.standard_normal(y.shape).astype(np.float32))
    found = gradients(y, moved, cotangent)
    nodes = [y, *(p.full_like(x, 0.0) if g is None else g for x, g in zip(moved, found, strict=True))]
    for ours, expected in zip(device.evaluate(nodes), reference.evaluate(nodes), strict=True):
        wanted = values(expected)
        largest = np.abs(wanted).max(initial=1.0)
        np.testing.assert_allclose(values(ours), wanted, rtol=1e-4, atol=2e-5 * largest)


@pytest.mark.full
@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_a_primitive_and_its_gradients_in_the_emulator_equal_the_reference(name: str, data: st.DataObject) -> None:
    compare_gradients(name, data.draw(samples(name)), emulated)  # type: ignore[arg-type]
