"""A checkpoint on disk: `step-N/` with arrays (safetensors), state.json and manifest.json; complete or absent.

It is written under a temporary name, flushed to disk and renamed. The manifest contains each file's size and SHA-256,
which are checked when reading.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import DType, bool_, float16, float32, float64, int32, int64, uint8
from trainer.engine.safetensors import decoded, parsed, pieces
from trainer.learner.checkpoints.disk import DISK, Disk, Pieces
from trainer.learner.checkpoints.policy import Saved
from trainer.rundir import write_error

FORMAT = 2
MOST_JSON = 1 << 26
"""Maximum bytes of a manifest."""
_OLD, _GONE = ".old", ".gone"
"""Suffixes of folders that are about to be replaced, or being deleted."""
STATE, MANIFEST = "state.json", "manifest.json"
POINTERS = LATEST, BEST = "latest", "best"
"""Files that point to a checkpoint."""
_FOLDER = re.compile(r"step-(0|[1-9]\d{0,17})")
_FILE = re.compile(r"state\.json|[a-z][a-z0-9_]*\.safetensors")
"""File names allowed in a manifest: nothing outside of its folder."""
_BY_NAME = {dtype.name: dtype for dtype in (bool_, uint8, int32, int64, float16, float32, float64)}


@dataclass(frozen=True)
class Array:
    """An array and its element type; bfloat16 is carried as uint16 bit patterns."""

    values: np.ndarray
    dtype: DType

    @classmethod
    def of(cls, values: np.ndarray) -> Array:
        """An array with the element type of a NumPy array.

        Raises:
            TrainerError: checkpoints don't support the element type.
        """
        dtype = _BY_NAME.get(values.dtype.name)
        if dtype is None:
            raise TrainerError(
                "the element type of an array is not supported in checkpoints",
                found=str(values.dtype),
                expected=", ".join(sorted(_BY_NAME)),
            )
        return cls(values, dtype)

    def widened(self) -> np.ndarray:
        """The values as a NumPy dtype: bfloat16 as float32."""
        if self.dtype.name != "bfloat16":
            return self.values
        return (self.values.astype(np.uint32) << 16).view(np.float32)


ArrayFiles = Mapping[str, Mapping[str, Array]]
"""Arrays by name, by file stem ("model", "training")."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint."""

    arrays: dict[str, dict[str, Array]]
    state: dict[str, Any]


def folder_name(step: int) -> str:
    """The folder of the checkpoint at `step`."""
    return f"step-{step}"


def steps_in(checkpoints: Path) -> list[int]:
    """The steps with a complete checkpoint in the folder, in order."""
    try:
        names = os.listdir(checkpoints)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (_FOLDER.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match and (checkpoints / match[0] / MANIFEST).exists())


def write_checkpoint(
    checkpoints: Path,
    step: int,
    arrays: ArrayFiles,
    state: Mapping[str, Any],
    *,
    number: int = 1,
    value: float | None = None,
    disk: Disk = DISK,
) -> tuple[Path, int]:
    """Writes `step-N` and returns its path and size in bytes. Replaces a checkpoint of the same step.

    `number` and `value` are as in `policy.Saved`.

    Raises:
        TrainerError: the disk is full, or the directory can't be written. No partial checkpoint is left.
    """
    final = checkpoints / folder_name(step)
    aside = checkpoints / f".{folder_name(step)}.{os.getpid()}"
    old = checkpoints / f"{aside.name}{_OLD}"
    try:
        disk.make_folder(checkpoints)
        disk.remove_folder(aside)
        disk.make_folder(aside)
        contents: dict[str, Pieces] = {f"{stem}.safetensors": _pieces(group) for stem, group in arrays.items()}
        contents[STATE] = [json.dumps({"format": FORMAT, **state}, indent=1).encode()]
        written = {name: disk.write(aside / name, content) for name, content in contents.items()}
        files = {name: {"bytes": size, "sha256": digest} for name, (size, digest) in written.items()}
        measured = value if value is None or math.isfinite(value) else str(value)
        manifest = _sealed({"format": FORMAT, "step": step, "number": number, "value": measured, "files": files})
        total, _ = disk.write(aside / MANIFEST, [manifest])
        disk.flush_folder(aside)
        if final.exists():
            disk.rename(final, old)
            disk.rename(aside, final)
            disk.flush_folder(checkpoints)
            disk.remove_folder(old)
        else:
            disk.rename(aside, final)
            disk.flush_folder(checkpoints)
    except OSError as error:
        with suppress(OSError):  # leftovers are deleted when the run is resumed
            if old.exists() and not final.exists():
                disk.rename(old, final)
            disk.remove_folder(aside)
            disk.remove_folder(old)
        raise write_error(final, error) from error
    return final, total + sum(size for size, _ in written.values())


def read_checkpoint(folder: Path) -> Checkpoint:
    """Reads the checkpoint in `folder` and checks its files against the manifest.

    Raises:
        TrainerError: a file is missing, damaged, or in an unknown format.
    """
    arrays: dict[str, dict[str, Array]] = {}
    state: dict[str, Any] = {}
    for name, entry in _manifest(folder)["files"].items():
        content = _checked(folder, name, entry)
        if name == STATE:
            state = _json(folder, name, content)
        else:
            arrays[name.removesuffix(".safetensors")] = _decoded(content, folder / name)
    return Checkpoint(arrays, state)


def read_group(folder: Path, stem: str) -> dict[str, Array]:
    """Reads one file of a checkpoint's arrays ("model", "ema") and checks it against the manifest.

    Raises:
        TrainerError: the file is missing or damaged.
    """
    files = _manifest(folder)["files"]
    name = f"{stem}.safetensors"
    if name not in files:
        known = ", ".join(known.removesuffix(".safetensors") for known in files if known != STATE)
        raise TrainerError(f"the checkpoint has no {stem!r}", where=str(folder), expected=known)
    return _decoded(_checked(folder, name, files[name]), folder / name)


def read_state(folder: Path) -> dict[str, Any]:
    """Reads the checkpoint's state except arrays, and checks it against the manifest.

    Raises:
        TrainerError: the checkpoint is missing or damaged.
    """
    return _json(folder, STATE, _checked(folder, STATE, _manifest(folder)["files"][STATE]))


def _checked(folder: Path, name: str, expected: Mapping[str, Any]) -> bytes:
    """The content of a file, checked against its entry in the manifest."""
    content = _bytes(folder, name, expected["bytes"])
    if len(content) != expected["bytes"] or hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise TrainerError(
            "damaged checkpoint: the file doesn't match its manifest",
            where=str(folder / name),
            found=f"{len(content)} bytes",
            expected=f"{expected['bytes']} bytes, sha256 {expected['sha256'][:16]}…",
            hint="Resume from another checkpoint of the run, if one exists.",
        )
    return content


def read_arrays(file: Path) -> dict[str, Array]:
    """The arrays of one safetensors file by name.

    Raises:
        TrainerError: no such file, or not a safetensors file of known element types.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise TrainerError(
            "can't read weights", where=str(file), found=(error.strerror or str(error)).lower()
        ) from error
    return _decoded(content, file)


def saved_at(folder: Path) -> Saved | None:
    """Reads the step, number and value of a checkpoint from its manifest; None if damaged."""
    try:
        manifest = _manifest(folder)
        value = manifest["value"]
        return Saved(int(manifest["step"]), int(manifest["number"]), None if value is None else float(value))
    except (TrainerError, KeyError, TypeError, ValueError):
        return None


def point(checkpoints: Path, name: str, step: int, *, disk: Disk = DISK) -> None:
    """Makes the file `name` ("latest", "best") point to the checkpoint at `step`, atomically."""
    aside = checkpoints / f".{name}.{os.getpid()}"
    try:
        disk.write(aside, [f"{folder_name(step)}\n".encode()])
        disk.rename(aside, checkpoints / name)
        disk.flush_folder(checkpoints)
    except OSError as error:
        raise write_error(checkpoints / name, error) from error


def pointed(checkpoints: Path, name: str) -> Path | None:
    """The folder that the file `name` points to; None if the file is missing or points to no checkpoint."""
    try:
        with open(checkpoints / name, "rb", opener=_regular) as file:
            step = file.read(64).decode(errors="replace").strip()
    except OSError:
        return None
    return checkpoints / step if _FOLDER.fullmatch(step) else None


def remove_checkpoint(checkpoints: Path, step: int, *, disk: Disk = DISK) -> None:
    """Renames and deletes `step-N`, so that a partial checkpoint never has its name.

    Raises:
        OSError: it can't be deleted completely.
    """
    going = checkpoints / f".{folder_name(step)}.{os.getpid()}{_GONE}"
    if (folder := checkpoints / folder_name(step)).exists():  # otherwise an earlier deletion was interrupted
        disk.remove_folder(going)
        disk.rename(folder, going)
    disk.remove_folder(going)


def remove_leftovers(checkpoints: Path, *, disk: Disk = DISK) -> None:
    """Deletes the incomplete files of a killed process, and restores the checkpoint that it was replacing.

    Raises:
        OSError: a file can't be deleted.
    """
    for path in checkpoints.glob(f".step-*{_OLD}"):
        final = checkpoints / path.name[1:].partition(".")[0]
        if not (final / MANIFEST).exists() and (path / MANIFEST).exists():
            disk.remove_folder(final)
            disk.rename(path, final)
    for path in checkpoints.glob(".step-*"):
        disk.remove_folder(path)
    for name in POINTERS:
        for path in checkpoints.glob(f".{name}.*"):
            disk.remove_file(path)


def _sealed(manifest: dict[str, Any]) -> bytes:
    """The manifest's text, including its own hash."""
    return json.dumps({**manifest, "sha256": _seal(manifest)}, indent=1).encode()


def _seal(manifest: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _manifest(folder: Path) -> dict[str, Any]:
    """Reads a checkpoint's manifest; checks its hash, and that it names only files inside the folder."""
    manifest = _json(folder, MANIFEST, _bytes(folder, MANIFEST))
    where = str(folder / MANIFEST)
    named = _FOLDER.fullmatch(folder.name)
    if named and manifest.get("step") != int(named[1]):
        raise TrainerError("checkpoint of another step: folders were exchanged", where=where,
                           found=manifest.get("step"), expected=int(named[1]))  # fmt: skip
    if manifest.get("format") != FORMAT:
        raise TrainerError("unknown checkpoint format", where=where, found=manifest.get("format"), expected=FORMAT)
    if manifest.get("sha256") != _seal(manifest):
        raise TrainerError("damaged checkpoint: the manifest doesn't match its hash", where=where,
                           hint="Resume from another checkpoint of the run, if one exists.")  # fmt: skip
    files = manifest.get("files")
    if not isinstance(files, dict) or STATE not in files:
        raise TrainerError("invalid manifest of a checkpoint", where=where, expected=f"its files, {STATE} among them")
    for name, entry in files.items():
        if not _FILE.fullmatch(name):
            raise TrainerError(
                "the manifest names a file that is not part of a checkpoint", where=where, found=name[:200]
            )
        if (
            not isinstance(entry, dict)
            or type(entry.get("bytes")) is not int
            or not isinstance(entry.get("sha256"), str)
        ):
            raise TrainerError("invalid manifest of a checkpoint", where=where, found=name, expected="bytes and sha256")
    return manifest


def _pieces(group: Mapping[str, Array]) -> Pieces:
    return pieces({name: (array.values, array.dtype) for name, array in group.items()}, {"format": "trainer"})


def _decoded(content: bytes, where: Path) -> dict[str, Array]:
    arrays, _ = decoded(content, str(where))
    return {name: Array(values, dtype) for name, (values, dtype) in arrays.items()}


def _bytes(folder: Path, name: str, most: int = MOST_JSON) -> bytes:
    """The content of a file with at most `most` bytes."""
    try:
        with open(folder / name, "rb", opener=_regular) as file:
            if (size := os.fstat(file.fileno()).st_size) > most:
                raise TrainerError("damaged checkpoint: a file is too large", where=str(folder / name),
                                   found=f"{size} bytes", expected=f"at most {most}")  # fmt: skip
            return file.read()
    except OSError as error:
        raise TrainerError(
            "incomplete checkpoint", where=str(folder / name), found=(error.strerror or str(error)).lower()
        ) from error


def _regular(path: str, flags: int) -> int:
    """Opens a file; rejects anything but a regular file, such as a pipe, which would block its reader forever."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "Not a regular file")
    return descriptor


def _json(folder: Path, name: str, content: bytes) -> dict[str, Any]:
    where = str(folder / name)
    try:
        found = parsed(content, where)
    except TrainerError as error:
        raise TrainerError("damaged checkpoint: invalid JSON", where=where, found=error.found) from error
    if not isinstance(found, dict):
        raise TrainerError("damaged checkpoint: not a JSON object", where=where, found=type(found).__name__)
    return found
