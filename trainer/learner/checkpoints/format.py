"""A checkpoint on disk: `step-N/` with arrays (safetensors), state.json and manifest.json; complete, or not there.

It is written under another name, flushed to the disk and renamed; the manifest holds each file's size and SHA-256, and
reading checks them.
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
"""Bytes of a manifest; more is none."""
_OLD, _GONE = ".old", ".gone"
"""The endings of what is about to be replaced, and of what is being deleted."""
STATE, MANIFEST = "state.json", "manifest.json"
POINTERS = LATEST, BEST = "latest", "best"
"""Files that name a checkpoint."""
_FOLDER = re.compile(r"step-(0|[1-9]\d{0,17})")
_FILE = re.compile(r"state\.json|[a-z][a-z0-9_]*\.safetensors")
"""What a manifest may name: nothing outside of its folder."""
_BY_NAME = {dtype.name: dtype for dtype in (bool_, uint8, int32, int64, float16, float32, float64)}


@dataclass(frozen=True)
class Array:
    """An array and its element type; bfloat16 is carried as uint16 bit patterns."""

    values: np.ndarray
    dtype: DType

    @classmethod
    def of(cls, values: np.ndarray) -> Array:
        """An array of NumPy's with the element type that it has.

        Raises:
            TrainerError: checkpoints hold no such elements.
        """
        dtype = _BY_NAME.get(values.dtype.name)
        if dtype is None:
            raise TrainerError(
                "a checkpoint can't hold an array", found=str(values.dtype), expected=", ".join(sorted(_BY_NAME))
            )
        return cls(values, dtype)

    def widened(self) -> np.ndarray:
        """The values as NumPy knows them: bfloat16 as float32."""
        if self.dtype.name != "bfloat16":
            return self.values
        return (self.values.astype(np.uint32) << 16).view(np.float32)


ArrayFiles = Mapping[str, Mapping[str, Array]]
"""By file stem ("model", "training"), arrays by name."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds."""

    arrays: dict[str, dict[str, Array]]
    state: dict[str, Any]


def folder_name(step: int) -> str:
    """The folder of the checkpoint at `step`."""
    return f"step-{step}"


def steps_in(checkpoints: Path) -> list[int]:
    """The steps that have a complete checkpoint in the folder, in order."""
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
    """Write `step-N`; its path and its size in bytes. One of the same step is replaced.

    `number` and `value` are what `policy.Saved` says.

    Raises:
        TrainerError: the disk is full, or the directory can't be written. Nothing half-written is left.
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
        with suppress(OSError):  # what is left then goes when the run is taken up again
            if old.exists() and not final.exists():
                disk.rename(old, final)
            disk.remove_folder(aside)
            disk.remove_folder(old)
        raise write_error(final, error) from error
    return final, total + sum(size for size, _ in written.values())


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`, after its files were compared with the manifest.

    Raises:
        TrainerError: a file is missing, damaged, or of a format that this version does not know.
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
    """One file of a checkpoint's arrays ("model", "ema"), after it was compared with the manifest.

    Raises:
        TrainerError: there is no such file, or it is damaged.
    """
    files = _manifest(folder)["files"]
    name = f"{stem}.safetensors"
    if name not in files:
        known = ", ".join(known.removesuffix(".safetensors") for known in files if known != STATE)
        raise TrainerError(f"a checkpoint without {stem!r}", where=str(folder), expected=known)
    return _decoded(_checked(folder, name, files[name]), folder / name)


def read_state(folder: Path) -> dict[str, Any]:
    """What a checkpoint holds besides arrays, after it was compared with the manifest.

    Raises:
        TrainerError: there is no such checkpoint, or it is damaged.
    """
    return _json(folder, STATE, _checked(folder, STATE, _manifest(folder)["files"][STATE]))


def _checked(folder: Path, name: str, expected: Mapping[str, Any]) -> bytes:
    """The content of a file that the manifest describes so."""
    content = _bytes(folder, name, expected["bytes"])
    if len(content) != expected["bytes"] or hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise TrainerError(
            "a damaged checkpoint: the file is not the one that its manifest describes",
            where=str(folder / name),
            found=f"{len(content)} bytes",
            expected=f"{expected['bytes']} bytes, sha256 {expected['sha256'][:16]}…",
            hint="Resume from another checkpoint of the run, if there is one.",
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
    """What the manifest of a checkpoint says of it, or None where that is damaged."""
    try:
        manifest = _manifest(folder)
        value = manifest["value"]
        return Saved(int(manifest["step"]), int(manifest["number"]), None if value is None else float(value))
    except (TrainerError, KeyError, TypeError, ValueError):
        return None


def point(checkpoints: Path, name: str, step: int, *, disk: Disk = DISK) -> None:
    """Let the file `name` ("latest", "best") name the checkpoint at `step`; replaced in one go."""
    aside = checkpoints / f".{name}.{os.getpid()}"
    try:
        disk.write(aside, [f"{folder_name(step)}\n".encode()])
        disk.rename(aside, checkpoints / name)
        disk.flush_folder(checkpoints)
    except OSError as error:
        raise write_error(checkpoints / name, error) from error


def pointed(checkpoints: Path, name: str) -> Path | None:
    """The folder that the file `name` names, or None when there is no such file, or it names no checkpoint."""
    try:
        with open(checkpoints / name, "rb", opener=_regular) as file:
            step = file.read(64).decode(errors="replace").strip()
    except OSError:
        return None
    return checkpoints / step if _FOLDER.fullmatch(step) else None


def remove_checkpoint(checkpoints: Path, step: int, *, disk: Disk = DISK) -> None:
    """Delete `step-N`, under another name, so that there never is half of one.

    Raises:
        OSError: it can't be deleted, or not all of it.
    """
    going = checkpoints / f".{folder_name(step)}.{os.getpid()}{_GONE}"
    if (folder := checkpoints / folder_name(step)).exists():  # else it was begun before
        disk.remove_folder(going)
        disk.rename(folder, going)
    disk.remove_folder(going)


def remove_leftovers(checkpoints: Path, *, disk: Disk = DISK) -> None:
    """Delete what a killed process left half-written; what it was about to replace takes its place again.

    Raises:
        OSError: it can't be deleted.
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
    """The manifest's text with a hash of itself."""
    return json.dumps({**manifest, "sha256": _seal(manifest)}, indent=1).encode()


def _seal(manifest: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint, itself checked: its own hash, and that it names only what may lie in the folder."""
    manifest = _json(folder, MANIFEST, _bytes(folder, MANIFEST))
    where = str(folder / MANIFEST)
    named = _FOLDER.fullmatch(folder.name)
    if named and manifest.get("step") != int(named[1]):
        raise TrainerError("a checkpoint of another step: folders were exchanged", where=where,
                           found=manifest.get("step"), expected=int(named[1]))  # fmt: skip
    if manifest.get("format") != FORMAT:
        raise TrainerError("a checkpoint of another format", where=where, found=manifest.get("format"), expected=FORMAT)
    if manifest.get("sha256") != _seal(manifest):
        raise TrainerError("a damaged checkpoint: its manifest is not as it was written", where=where,
                           hint="Resume from another checkpoint of the run, if there is one.")  # fmt: skip
    files = manifest.get("files")
    if not isinstance(files, dict) or STATE not in files:
        raise TrainerError("not a manifest of a checkpoint", where=where, expected=f"its files, {STATE} among them")
    for name, entry in files.items():
        if not _FILE.fullmatch(name):
            raise TrainerError("a manifest names what is no file of a checkpoint", where=where, found=name[:200])
        if (
            not isinstance(entry, dict)
            or type(entry.get("bytes")) is not int
            or not isinstance(entry.get("sha256"), str)
        ):
            raise TrainerError("not a manifest of a checkpoint", where=where, found=name, expected="bytes and sha256")
    return manifest


def _pieces(group: Mapping[str, Array]) -> Pieces:
    return pieces({name: (array.values, array.dtype) for name, array in group.items()}, {"format": "trainer"})


def _decoded(content: bytes, where: Path) -> dict[str, Array]:
    arrays, _ = decoded(content, str(where))
    return {name: Array(values, dtype) for name, (values, dtype) in arrays.items()}


def _bytes(folder: Path, name: str, most: int = MOST_JSON) -> bytes:
    """The content of a file of at most so many bytes."""
    try:
        with open(folder / name, "rb", opener=_regular) as file:
            if (size := os.fstat(file.fileno()).st_size) > most:
                raise TrainerError("a damaged checkpoint: a file that is too long", where=str(folder / name),
                                   found=f"{size} bytes", expected=f"at most {most}")  # fmt: skip
            return file.read()
    except OSError as error:
        raise TrainerError(
            "not a complete checkpoint", where=str(folder / name), found=(error.strerror or str(error)).lower()
        ) from error


def _regular(path: str, flags: int) -> int:
    """Open a file that is one: a pipe would keep its reader waiting for ever."""
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
        raise TrainerError("a damaged checkpoint: no valid JSON", where=where, found=error.found) from error
    if not isinstance(found, dict):
        raise TrainerError("a damaged checkpoint: no JSON object", where=where, found=type(found).__name__)
    return found
