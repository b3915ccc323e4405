"""What the compiler made, as text: each level says what it promises."""

from __future__ import annotations

import re

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State
from trainer.engine.targets.cpu.describe import Compilation, debug_level, describe_program
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program

X = np.ones((40, 300), np.float32)


@pytest.fixture
def device() -> CpuDevice:
    return CpuDevice(threads=2, poison=False)


@pytest.fixture
def program(device: CpuDevice) -> Program:
    weight = State(np.ones((300, 30), np.float32), "weight")

    def step(x: object) -> object:
        return engine.sum(engine.exp(x @ weight), axis=1)  # type: ignore[operator]

    with engine.device(device):
        traced = engine.trace(step)
        traced(X)
    (found,) = traced.programs
    found.compilation = Compilation(2, 1, 12.34)
    return found


def test_level_0_says_nothing(program: Program) -> None:
    assert describe_program(program, 0) == ""


def test_level_1_is_a_line(program: Program) -> None:
    assert describe_program(program, 1) == (
        "program: traced, 2 launches, 1 barrier, arena 4.8 KiB, 2 kernels (2 compiled, 1 from the cache), 12.3 ms"
    )


def test_level_2_lists_launches_barriers_and_buffers(program: Program) -> None:
    _, product, total, peak = describe_program(program, 2).splitlines()
    assert re.fullmatch(
        r"    0   matmul 40x300x30 \(\d+ tasks?\): input x float32\[12000\] 46\.9 KiB, "
        r"weight float32\[9000\] 35\.2 KiB -> matmul at 0 float32\[1200\] 4\.7 KiB",
        product,
    )
    assert re.fullmatch(
        r"    1 [| ] reduce_sum \(\d+ tasks?\): matmul at 0 float32\[1200\] 4\.7 KiB -> result 0 float32\[40\] 160 B",
        total,
    )
    assert peak == "      most memory at once: matmul at 0 float32[1200] 4.7 KiB"


def test_barriers_are_marked_as_the_tape_has_them(program: Program) -> None:
    marks = [line[6] for line in describe_program(program, 2).splitlines()[1:-1]]
    assert marks.count("|") == program.barriers


def test_level_3_shows_bodies(program: Program) -> None:
    text = describe_program(program, 3)
    assert "MatmulSpec(" in text and "MatmulParameters(" in text
    assert "          %0 = load(0) float32\n          %1 = exp(%0) float32\n          sum %1 by row: " in text


def test_a_kernel_is_shown_once() -> None:
    device = CpuDevice(threads=1, poison=True)
    with engine.device(device):
        traced = engine.trace(lambda x: engine.cumulative_sum(engine.cumulative_sum(x, axis=1), axis=1))
        traced(X)
    assert engine.explain(traced, level=3).count("%0 = constant(255) uint8") == 1


def test_explain_is_of_the_programs_of_a_step(device: CpuDevice) -> None:
    traced = engine.trace(lambda x: x + 1)
    assert "no program yet" in engine.explain(traced)
    with engine.device(device):
        traced(X)
        traced(X[:1])
    with engine.device("reference"):
        traced(X)
    lines = [line for line in engine.explain(traced).splitlines() if line.startswith("program")]
    assert len(lines) == 3 and lines[2] == "program: interpreted node by node (ReferenceProgram)"


@pytest.mark.parametrize("level", [None, 1, 2])
def test_the_environment_prints_programs_as_they_are_compiled(
    level: int | None, device: CpuDevice, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if level is None:
        monkeypatch.delenv("TRAINER_DEBUG", raising=False)
    else:
        monkeypatch.setenv("TRAINER_DEBUG", str(level))
    with engine.device(device):
        x = engine.asarray(X)
        (x + 1).numpy()
        (x + 1).numpy()
        traced = engine.trace(lambda x: x * 2)
        traced(X)
    out, err = capfd.readouterr()
    assert out == ""
    starts = [line.split(",")[0] for line in err.splitlines() if line.startswith("program")]
    assert starts == ([] if level is None else ["program: evaluated", "program: traced"])
    assert ("multiply" in err) == (level == 2)


def test_a_level_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINER_DEBUG", "loud")
    with pytest.raises(TrainerError, match="TRAINER_DEBUG is no level"):
        debug_level()
