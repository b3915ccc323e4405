"""Damages checkpoints in all the ways that disks, copies and people do, and checks that it is detected."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trainer import TrainerError, engine
from trainer.learner.checkpoints import Array, first_difference, read_checkpoint, read_newest, write_checkpoint
from trainer.rundir import RunPaths

STEPS = (4, 8, 12)
Way = Callable[["Damage", Path], Path | None]


class Damage:
    """A run with three checkpoints below `folder`; the newest is damaged repeatedly, and `seed` decides how."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.paths, self.random = RunPaths(folder), random.Random(seed)
        numbers = np.random.default_rng(seed)
        for step in STEPS:
            arrays = {
                stem: {
                    name: Array(numbers.normal(size=(16, 8)).astype(np.float32), engine.float32)
                    for name in ("first.weight", "second.weight")
                }
                for stem in ("model", "training", "ema")
            }
            write_checkpoint(self.paths.checkpoints, step, arrays, {"step": step, "metrics": {"valid/loss": 0.5}})
        (self.paths.checkpoints / "latest").write_text(f"step-{STEPS[-1]}\n")
        self.older, self.newest = (self.paths.checkpoints / f"step-{step}" for step in STEPS[-2:])
        self.whole = read_checkpoint(self.older)
        self._kept = folder / "kept"
        shutil.copytree(self.paths.checkpoints, self._kept)

    def files(self, folder: Path) -> list[Path]:
        return sorted(folder.iterdir())

    def once(self) -> str:
        """Damages the newest checkpoint, reads the run, and repairs it; returns what was not detected, or ""."""
        name, way = self.random.choice(list(WAYS.items()))
        file = self.random.choice(self.files(self.newest))
        changed = way(self, file)
        while changed is None:  # it leaves this file unchanged
            changed = way(self, file := self.random.choice(self.files(self.newest)))
        try:
            return self._problem(f"{name} of {file.name}", changed)
        finally:
            shutil.rmtree(self.paths.checkpoints)
            shutil.copytree(self._kept, self.paths.checkpoints)

    def _problem(self, what: str, file: Path) -> str:
        try:
            read_checkpoint(self.newest)
        except TrainerError as error:
            if str(file) not in str(error):
                return f"{what}: the message names another file: {error}"
        else:
            return f"{what}: not detected"
        warnings: list[str] = []
        found, checkpoint = read_newest(self.paths.root, warnings.append)
        if found.name != self.older.name or first_difference(checkpoint, self.whole) is not None:
            return f"{what}: no fallback to the previous checkpoint"
        return "" if str(file) in warnings[0] else f"{what}: the warning names another file: {warnings[0]}"


def _flipped(damage: Damage, file: Path) -> Path | None:
    content = bytearray(file.read_bytes())
    content[damage.random.randrange(len(content))] ^= 1 << damage.random.randrange(8)
    file.write_bytes(content)
    return file


def _cut(damage: Damage, file: Path) -> Path | None:
    content = file.read_bytes()
    file.write_bytes(content[: damage.random.randrange(len(content))])
    return file


def _extended(damage: Damage, file: Path) -> Path | None:
    file.write_bytes(file.read_bytes() + damage.random.randbytes(damage.random.randint(1, 100)))
    return file


def _zeroed(damage: Damage, file: Path) -> Path | None:
    content = bytearray(file.read_bytes())
    start = damage.random.randrange(len(content))
    end = min(len(content), start + damage.random.randint(1, 512))
    if not any(content[start:end]):
        return None
    content[start:end] = bytes(end - start)
    file.write_bytes(content)
    return file


def _missing(damage: Damage, file: Path) -> Path | None:
    file.unlink()
    return file


def _exchanged_within(damage: Damage, file: Path) -> Path | None:
    """Swaps the file with another one of its checkpoint; returns the one that is read first, which the error names."""
    other = damage.random.choice([one for one in damage.files(file.parent) if one != file])
    content, others = file.read_bytes(), other.read_bytes()
    file.write_bytes(others)
    other.write_bytes(content)
    pair = {file.name, other.name}
    if "manifest.json" in pair:
        return file.parent / "manifest.json"
    order = list(json.loads((file.parent / "manifest.json").read_text())["files"])
    return file.parent / min(pair, key=order.index)


def _exchanged_between(damage: Damage, file: Path) -> Path | None:
    """Replaces the file with the file of the same name in another checkpoint, which stays intact."""
    other = damage.paths.checkpoints / f"step-{damage.random.choice(STEPS[:-1])}" / file.name
    if other.read_bytes() == file.read_bytes():
        return None
    shutil.copyfile(other, file)
    return file


def _whole_exchanged(damage: Damage, file: Path) -> Path | None:
    """Replaces the whole checkpoint with another one."""
    shutil.rmtree(damage.newest)
    shutil.copytree(damage.older, damage.newest)
    return damage.newest / "manifest.json"


def _arrays_exchanged(damage: Damage, file: Path) -> Path | None:
    """Swaps two arrays of one file; the file stays well-formed."""
    if file.suffix != ".safetensors":
        return None
    content = bytearray(file.read_bytes())
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    (a, b), (c, d) = (header[name]["data_offsets"] for name in ("first.weight", "second.weight"))
    data = content[8 + length :]
    data[a:b], data[c:d] = data[c:d], data[a:b]
    file.write_bytes(content[: 8 + length] + data)
    return file


WAYS: dict[str, Way] = {
    "a flipped bit": _flipped,
    "a cut": _cut,
    "more at the end": _extended,
    "zeros": _zeroed,
    "a file missing": _missing,
    "files exchanged": _exchanged_within,
    "the file of another checkpoint": _exchanged_between,
    "another checkpoint": _whole_exchanged,
    "arrays exchanged": _arrays_exchanged,
}
