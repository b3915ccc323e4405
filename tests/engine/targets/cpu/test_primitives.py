"""Every primitive on the `cpu` device equals the reference device, on random shapes, strides, layouts and dtypes.

What only moves, compares, counts or rounds once has the same bits. Approximated functions may differ by their stated
error, sums by the rounding of another order, and products by a rounding for each factor.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.samples import Sample, samples
from trainer.engine.graph import half
from trainer.engine.graph.primitives import TABLE
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.reference import ReferenceDevice

APPROXIMATED = {"exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "logistic", "power", "atan2"}
SUMMED = {
    "reduce_sum",
    "reduce_prod",
    "cumulative_sum",
    "cumulative_prod",
    "scatter_prod_along",
    "gather_sum",
    "matmul",
    "scatter_add",
    "scatter_add_along",
} | {
    "convolution",
    "convolution_input_gradient",
    "convolution_weight_gradient",
    "reduce_mean",
    "reduce_deviations",
    "resample",
    "window_max_gradient",
}
EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-22, "float64": 2.0**-50}
"""Four units in the last place (bfloat16 and float16: one, since they are rounded from float32)."""

reference = ReferenceDevice()


@pytest.fixture(scope="module")
def cpu() -> CpuDevice:
    return CpuDevice(threads=2)


def values(storage: Storage) -> np.ndarray:
    return half.widened(storage.view(), storage.dtype)


def check(sample: Sample, device: CpuDevice) -> None:
    node = sample.node()
    (ours,), (expected,) = device.evaluate([node]), reference.evaluate([node])
    ours_values, expected_values = values(ours), values(expected)
    assert ours_values.shape == expected_values.shape
    if node.dtype.is_float and sample.name in APPROXIMATED | SUMMED:
        epsilon = EPSILON[node.dtype.name]
        relative, absolute = 4 * epsilon, 1e-300
        if "prod" in sample.name and expected_values.size:
            factors = sample.arrays()[0].size
            relative += factors * EPSILON["float32" if node.dtype.is_half else node.dtype.name]
        elif sample.name in SUMMED and expected_values.size:
            terms = [
                np.abs(array[np.isfinite(array)].astype(np.float64))
                for array in sample.arrays()
                if array.dtype.kind == "f"
            ]
            largest = float(np.prod([term.max(initial=0.0) for term in terms]))
            largest = largest**2 if sample.name == "reduce_deviations" else largest
            absolute += epsilon * largest * max(term.size for term in terms)
        np.testing.assert_allclose(ours_values, expected_values, rtol=relative, atol=absolute)
    else:
        np.testing.assert_array_equal(ours_values, expected_values)
        if node.dtype.is_float:
            zeros = (ours_values == 0) & (sample.name not in ("maximum", "minimum", "reduce_max", "reduce_min"))
            np.testing.assert_array_equal(np.signbit(ours_values[zeros]), np.signbit(expected_values[zeros]))


@pytest.mark.parametrize("name", sorted(set(TABLE) - {"buffer"}))
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_a_primitive_on_cpu_equals_the_reference(name: str, cpu: CpuDevice, data: st.DataObject) -> None:
    check(data.draw(samples(name)), cpu)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(TABLE) - {"buffer"}))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_a_primitive_on_narrow_vectors_equals_the_reference(
    name: str, narrow_cpu: CpuDevice, data: st.DataObject
) -> None:
    check(data.draw(samples(name)), narrow_cpu)


@pytest.fixture(scope="session")
def narrow_cpu() -> CpuDevice:
    return CpuDevice(threads=2, narrow=True, poison=True)
