"""Lookups in tables of sixteen floats: every entry in every lane, and permutes on every machine."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.engine.targets.kernels.loop_runner import addresses, compiled
from trainer.engine.targets.cpu import native
from trainer.engine.targets.ir.vectors import Floats
from trainer.engine.targets.ir.writer import Writer

TABLE = (0.0, -1.5, 2.0, 3.25, -4.0, 5.0, 6.5, 7.0, 8.0, -9.0, 10.0, 11.75, 12.0, 13.0, -14.0, 1e-40)


def _module(lanes: int) -> str:
    """Looks up `lanes` integers at the first address of the argument block; the second is where the floats go."""
    writer = Writer()
    floats = Floats(writer, "float", lanes)
    source = writer.value("load ptr, ptr %arguments")
    place = writer.value("getelementptr i64, ptr %arguments, i64 1")
    target = writer.value(f"load ptr, ptr {place}")
    index = writer.value(f"load {floats.bits}, ptr {source}, align 4")
    writer.emit(f"store {floats.type} {floats.lookup(TABLE, index)}, ptr {target}, align 4")
    return writer.module("kernel")


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
def test_only_the_lowest_four_bits_choose(lanes: int, narrow: bool) -> None:
    run = compiled(_module(lanes), narrow=narrow)
    index, found = np.empty(lanes, np.int32), np.empty(lanes, np.float32)
    for first in range(16):
        index[:] = (np.arange(lanes) * 7 + first) % 16 + 16 * np.random.default_rng(first).integers(-99, 99, lanes)
        run(addresses([index, found]), [0])
        np.testing.assert_array_equal(found, np.array(TABLE, np.float32)[index & 15])


@pytest.mark.parametrize(
    ("target", "instruction", "count"),
    [
        (native.Target("+avx512f", "", "x86_64-unknown-linux-gnu"), "vperm(?:ps|d)", 1),
        (native.Target("", "x86-64-v3", "x86_64-unknown-linux-gnu"), "vperm(?:ps|d)", 4),
        (native.Target("+neon", "generic", "aarch64-unknown-linux-gnu"), "tbl", 4),
    ],
    ids=["AVX-512", "AVX2", "NEON"],
)
def test_a_lookup_is_permutes(target: native.Target, instruction: str, count: int) -> None:
    text = native.assembly(_module(16), target)
    assert len(re.findall(rf"^\s+{instruction}\s", text, re.MULTILINE)) == count
