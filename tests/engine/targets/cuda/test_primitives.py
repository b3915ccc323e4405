"""Each primitive outside of traced steps on `device: cuda`: as exact as its kernel in the emulator is elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.samples import samples
from tests.engine.targets.cuda.hardware import gpu
from tests.engine.targets.ptx.test_primitives import LOWERED, compare
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
