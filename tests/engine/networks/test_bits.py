"""The bits of whole training steps do not depend on the number of threads, on what freed memory holds, nor on which
values are stored.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.engine.networks.networks import RESNET_50
from tests.engine.networks.training import Outcome, Pix2Pix, Residual
from tests.tiers import tiered
from trainer.engine.program.partition import Policy
from trainer.engine.targets.cpu.device import CpuDevice

RUNS = {
    "residual": Residual(blocks=(1, 1, 1, 1), width=8, size=64, batch=4),
    "pix2pix": Pix2Pix(filters=4, depth=6, size=64),
    "resnet-50": Residual(RESNET_50, width=64, size=64, batch=3, steps=2),
    "pix2pix-256": Pix2Pix(filters=32, depth=8, size=256, steps=2),
}


@functools.cache
def on_one_thread(name: str) -> Outcome:
    return RUNS[name].run(CpuDevice(threads=1, poison=False), np.float32)


def check(name: str, device: CpuDevice) -> None:
    expected, found = on_one_thread(name), RUNS[name].run(device, np.float32)
    assert np.isfinite(expected.losses).all()
    np.testing.assert_array_equal(found.losses, expected.losses)
    different = [key for key, value in expected.states.items() if not np.array_equal(found.states[key], value)]
    assert not different


BOTH_TIERS = tiered(("residual", "pix2pix", "resnet-50", "pix2pix-256"), ("residual", "pix2pix"))


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", BOTH_TIERS)
def test_number_of_threads(name: str, threads: int) -> None:
    check(name, CpuDevice(threads=threads, poison=False))


@pytest.mark.parametrize("threads", tiered((8, 5, 16), (8,)))
def test_more_threads_than_two_cores_have(threads: int) -> None:
    """For more than eight threads the cost model cuts other tasks."""
    check("residual", CpuDevice(threads=threads, poison=False))


@pytest.mark.parametrize("name", BOTH_TIERS)
def test_inputs_of_convolutions_stored(name: str) -> None:
    check(name, CpuDevice(threads=2, poison=False, policy=Policy(prologues=False)))


@pytest.mark.parametrize("name", BOTH_TIERS)
def test_freed_memory_filled_with_nan(name: str) -> None:
    check(name, CpuDevice(threads=2, poison=True))
