"""What the host must offer."""

from __future__ import annotations

import platform

import pytest

from trainer import TrainerError
from trainer.engine.devices.cpu import native
from trainer.engine.devices.cpu.device import CpuDevice


def test_a_processor_without_fused_multiply_add_is_refused_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(native, "host_features", lambda: {"avx2": True, "fma": False})
    with pytest.raises(TrainerError, match=r"no fma[\s\S]*AVX2 and FMA[\s\S]*device: reference"):
        CpuDevice(threads=1)


def test_narrow_code_has_no_512_bit_features() -> None:
    assert "+avx512" not in native.host_target(narrow=True).features
