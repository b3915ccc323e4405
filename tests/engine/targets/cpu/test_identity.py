"""What is kept on disk by its key: keys are told apart, are the same in every process, and end with the source."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.samples import samples
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.primitives import TABLE
from trainer.engine.graph.storage import Storage
from trainer.engine.program.build import Request
from trainer.engine.program.legalize import legalize
from trainer.engine.program.partition import Policy
from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import KernelSource
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import identity, loaded_kernels, native
from trainer.engine.targets.cpu.kernels import elementwise
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.loaded_kernels import Kernels
from trainer.engine.targets.cpu.machine import host_machine
from trainer.engine.targets.cpu.target import CpuTarget
from trainer.engine.targets.cpu.templates.contraction import MatmulKernel
from trainer.engine.targets.cpu.templates.convolution import ConvolutionKernel
from trainer.engine.targets.ir.operand import Operand

TARGET = CpuTarget(host_machine())
SEEN: dict[str, KernelSource] = {}

SECOND_PROCESS = """
import numpy as np
from trainer import engine
from trainer.engine import nn
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import identity, loaded_kernels, native

work = {"rendered": 0, "chosen": 0}

def counted(module, name, what):
    function = getattr(module, name)
    def counting(*arguments):
        work[what] += 1
        return function(*arguments)
    setattr(module, name, counting)

counted(loaded_kernels, "rendered", "rendered")
counted(defaults, "candidates", "chosen")
net = nn.Sequential(nn.Conv2d(3, 17, 3), nn.BatchNorm2d(17), nn.ReLU(), nn.Flatten(), nn.Linear(17 * 36, 5)).set_seed(0)
digests = set()
digest = identity.digest
identity.digest = lambda *key: (found := digest(*key), digests.add(found))[0]

def step(x):
    return engine.mean(net(x) ** 2)

loss = engine.trace(step)(np.ones((2, 3, 8, 8), np.float32)).item()
print(work["rendered"], work["chosen"], native.object_counts()[0], sorted(map(str, digests)), loss.hex())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    yield tmp_path / "objects"
    disk_cache.private_directory.cache_clear()


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by one with each kernel that is rendered."""
    rendered, render = [], loaded_kernels.rendered
    monkeypatch.setattr(loaded_kernels, "rendered", lambda source: (rendered.append(source), render(source))[1])
    return rendered


def load() -> None:
    """Load the kernel of `tanh`, as a process that has loaded nothing yet does."""
    x = p.buffer(Storage.of(np.zeros(3, np.float32), dtypes.float32))
    Kernels(native.host_target()).of(TARGET.lower(Request((p.tanh(x),)), Policy()).launches)


def test_a_second_process_renders_chooses_and_compiles_nothing(tmp_path: Path) -> None:
    def run(seed: str) -> list[str]:
        environment = {**os.environ, "TRAINER_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", SECOND_PROCESS]
        return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.split(
            " ", 3
        )

    first, second = run("1"), run("2")
    assert all(int(number) > 0 for number in first[:3])
    assert second[:3] == ["0", "0", "0"]
    assert second[3] == first[3] and "None" not in first[3]


@pytest.mark.parametrize("name", sorted(set(TABLE) - {"buffer"}))
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_kernels_of_one_digest_are_one_and_all_have_one(name: str, data: st.DataObject) -> None:
    (node,) = legalize([data.draw(samples(name)).node()], TARGET.features.wide_groups)
    for launch in TARGET.lower(Request((node,)), Policy()).launches:
        digest = identity.digest(launch.source.key)
        assert digest is not None
        other = SEEN.setdefault(digest, launch.source)
        assert other == launch.source and other.render("kernel") == launch.source.render("kernel")


def test_what_python_calls_equal_but_machine_code_does_not_has_digests_of_its_own() -> None:
    values = (0, 0.0, -0.0, False, "0", "", (), ((),), None, float("nan"), -float("nan"), dtypes.int32, (0,), (0, 0))
    assert len({identity.digest(value) for value in values}) == len(values)
    assert len({identity.digest(each) for each in (("a", "b"), ("a\nb",), (("a",), "b"), ("a", ("b",)))}) == 4


def test_every_field_counts() -> None:
    operand = Operand(dtypes.float32, "contiguous")
    body = (Instruction("load", (), dtypes.float32, (0,)),)
    keys = [
        LoopKernel(1, (operand,), body, ((0, operand),)),
        LoopKernel(2, (operand,), body, ((0, operand),)),
        LoopKernel(1, (Operand(dtypes.float64, "contiguous"),), body, ((0, operand),)),
        LoopKernel(1, (operand,), body, ((0, Operand(dtypes.float32, "strided")),)),
        LoopKernel(1, (operand,), body, ((0, operand),), streamed=True),
    ]
    assert len({identity.digest(key) for key in keys}) == len(keys)
    assert identity.digest(keys[0], "one target") != identity.digest(keys[0], "another target")


def test_templates_of_one_specification_are_told_apart_and_foreign_ones_are_not_kept() -> None:
    kernels = (MatmulKernel, ConvolutionKernel, elementwise.render)
    assert len({identity.digest((1, kernel)) for kernel in kernels}) == 3

    @dataclass(frozen=True)
    class Unwritten:
        members: frozenset[int]

    for key in (load, lambda: None, Unwritten(frozenset({1})), {1}, object()):
        assert identity.digest((1, key)) is None


def test_editing_a_source_file_changes_the_hash(tmp_path: Path) -> None:
    def hash_now() -> str:
        return identity.hash_of_files(tmp_path, tmp_path.rglob("*.py"))

    (tmp_path / "kernels").mkdir()
    file = tmp_path / "kernels" / "tile.py"
    hashes = set()
    for text in ("one", "two"):
        file.write_text(text)
        hashes.add(hash_now())
    file.rename(tmp_path / "tile.py")
    hashes.add(hash_now())
    assert len(hashes) == 3


def test_the_hash_covers_what_renders_and_what_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    monkeypatch.setattr(
        identity, "hash_of_files", lambda root, paths: hashed.extend(str(path.relative_to(root)) for path in paths)
    )
    identity.source_hash.__wrapped__()
    wanted = {
        "targets/cpu/kernels/tile.py",
        "targets/cpu/lowering/routines.py",
        "targets/cpu/defaults.py",
        "graph/dtypes.py",
    }
    assert wanted <= set(hashed)


def test_with_another_source_a_kernel_is_rendered_again(
    folder: Path, count: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    load()
    assert len(count) == 1
    monkeypatch.setattr(identity, "source_hash", lambda: "another source")
    load()
    assert len(count) == 2


@pytest.mark.parametrize("suffix", [loaded_kernels.NAMED, native.OBJECT])
@pytest.mark.parametrize("damage", [lambda blob: blob[:-1], lambda blob: blob[:-1] + bytes([blob[-1] ^ 1]), None])
def test_what_is_damaged_or_gone_is_rendered_again(
    folder: Path, count: list[object], suffix: str, damage: object
) -> None:
    load()
    (file,) = folder.glob(f"*{suffix}")
    good = file.read_bytes()
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(good))  # type: ignore[operator]
    load()
    load()
    assert len(count) == 2
    assert file.read_bytes() == good
