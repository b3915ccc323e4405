"""Networks drawn at random train alike on the reference device and on the cpu device, to the bit in every setting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.networks.any_network import train
from tests.tiers import tiered
from trainer import engine
from trainer.engine.program.partition import Policy
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.device import CpuDevice

POLICIES = (
    Policy(),
    Policy(recompute=False),
    Policy(shared_loads=9, shared_operations=99),
    Policy(channels_last=False),
    Policy(prologues=False),
)

SEEDS = tiered(range(120), range(12))
FEWER_SEEDS = tiered(range(48), range(4))


@pytest.mark.parametrize("seed", SEEDS)
def test_three_steps_in_float64_equal_the_reference_device(seed: int) -> None:
    _, expected, states = train(seed, "reference", engine.float64)
    device = CpuDevice(threads=1 + seed % 3, poison=True, policy=POLICIES[seed % 4])
    net, found, found_states = train(seed, device, engine.float64)
    for value, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, value, rtol=1e-9, atol=1e-11, err_msg=repr(net))
    for name, value in states.items():  # Adam makes steps of any size of gradients that are rounding alone
        np.testing.assert_allclose(found_states[name], value, rtol=1e-9, atol=1e-7, err_msg=f"{name} of {net!r}")


@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_bits_are_the_same_in_every_setting(seed: int) -> None:
    dtype = (engine.float32, engine.float64)[seed % 2]
    random = np.random.default_rng(seed)

    def any_candidate(spec: Any) -> Any:
        candidates = defaults.candidates(spec)
        return candidates[int(random.integers(len(candidates)))]

    _, expected, states = train(seed, CpuDevice(threads=1, poison=False), dtype)
    for setting in (
        *({"policy": policy, "threads": 3} for policy in POLICIES[1:]),
        {"choose": any_candidate, "threads": 2, "poison": True},
        {"narrow": True, "threads": 2},
    ):
        net, found, found_states = train(seed, CpuDevice(**setting), dtype)  # type: ignore[arg-type]
        for value, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(other, value, err_msg=f"{setting} {net!r}")
        for name, value in states.items():
            np.testing.assert_array_equal(found_states[name], value, err_msg=f"{setting} {name} of {net!r}")
