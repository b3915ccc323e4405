"""What the host must offer."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from trainer import TrainerError
from trainer.engine.targets.cpu import features, native
from trainer.engine.targets.cpu.device import CpuDevice


def test_a_processor_without_fused_multiply_add_is_refused_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(native, "host_features", lambda: {"avx2": True, "fma": False})
    with pytest.raises(TrainerError, match=r"no fma[\s\S]*AVX2 and FMA[\s\S]*device: reference"):
        CpuDevice(threads=1)


def test_narrow_code_has_no_512_bit_features() -> None:
    assert "+avx512" not in native.host_target(narrow=True).features


NEW = dict.fromkeys(
    ("avx2", "fma", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512bf16", "avx512vnni", "avxvnni"),
    True,
)
OLD = {"avx2": True, "fma": True, "avx512f": False}


@pytest.mark.parametrize(
    ("level", "left"),
    [
        ("", set(NEW)),
        ("native", set(NEW)),
        ("avx2", {"avx2", "fma"}),
        ("avx512", {"avx2", "fma", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ],
)
def test_a_level_leaves_these_features(level: str, left: set[str]) -> None:
    assert {name for name, present in features.limited(NEW, level).items() if present} == left


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("avx3", r"TRAINER_CPU_FEATURES[\s\S]*'avx3'\n[\s\S]*native or avx2\n"),
        ("avx512", r"this processor has no avx512f, no avx512bw[\s\S]*native or avx2\n"),
        ("neon", r"this processor has no neon"),
    ],
)
def test_a_level_that_is_unknown_or_too_high_is_refused(level: str, message: str) -> None:
    with pytest.raises(TrainerError, match=message):
        features.limited(OLD, level)


def test_the_variable_limits_the_whole_process() -> None:
    level = "avx2" if native.host_features().get("avx2") else "neon"
    script = (
        "from trainer.engine.targets.cpu.machine import NARROW, host_machine\n"
        "from trainer.engine.targets.cpu import native\n"
        "assert host_machine().vectors == NARROW.vectors\n"
        "assert native.host_target() == native.host_target(narrow=True)\n"
        "print('+avx512' in native.host_target().features)\n"
    )
    environment = os.environ | {"TRAINER_CPU_FEATURES": level}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")
