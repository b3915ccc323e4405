"""Primitives outside of traced steps on `device: cuda`: as exact as their kernels in the emulator are elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.samples import samples
from tests.engine.targets.cuda.hardware import IS_REAL, gpu
from tests.engine.targets.ptx.test_primitives import LOWERED, SMOOTH, compare, compare_gradients
from tests.engine.targets.ptx.test_products import PRECISIONS, assert_near, products_of
from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cuda.device import CudaDevice


@pytest.fixture(scope="module")
def cpu() -> CpuDevice:
    return CpuDevice(threads=1)


@pytest.fixture(scope="module")
def cuda() -> CudaDevice:
    return gpu()


@pytest.mark.full
@pytest.mark.parametrize("name", LOWERED)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_a_primitive_equals_the_cpu(name: str, cpu: CpuDevice, cuda: CudaDevice, data: st.DataObject) -> None:
    compare(data.draw(samples(name)), cpu, cuda)


@pytest.mark.full
@pytest.mark.skipif(
    not IS_REAL, reason="runs on a GPU alone: kernels of gradients are executed in the emulator elsewhere"
)
@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_a_primitive_and_its_gradients_equal_the_reference(name: str, cuda: CudaDevice, data: st.DataObject) -> None:
    compare_gradients(name, data.draw(samples(name)), cuda)


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype", "error"), PRECISIONS, ids=[name for name, *_ in PRECISIONS])
def test_products_of_tensor_cores_come_near(name: str, dtype: DType, error: float) -> None:
    assert_near(gpu("fast"), products_of(dtype), error)
