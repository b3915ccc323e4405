"""The cache of compiled kernels and related files on disk: private to the user, and verified when read.

Files are written by rename and contain their own hash, because they hold native code. The least recently used are
removed when the total exceeds `TRAINER_KERNEL_CACHE_GB`; a file's modification time is the time of its last use.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path

from trainer import TrainerError, cache_folder

LIMIT_VARIABLE = "TRAINER_KERNEL_CACHE_GB"

_DIGEST_BYTES = 32
_PART_BETWEEN_SCANS = 1 / 64
"""Fraction of the limit that is written, on average, between two scans of the folder."""
_PART_AFTER_REMOVAL = 0.9
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_directory() -> Path:
    """Returns the folder of compiled kernels; `TRAINER_CACHE_DIR` moves it."""
    return cache_folder() / "objects"


@functools.cache
def private_directory(path: Path) -> Path | None:
    """Creates `path` and returns it if only this user can write there; otherwise returns None, and nothing is cached.

    Users who can write to a parent folder could replace `path`, so `unsafe_folder` must find none.
    """
    path = path.absolute()
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
        status = path.stat()
        if not hasattr(os, "getuid"):
            return path
        is_own = status.st_uid == os.getuid() and not status.st_mode & _WRITABLE_BY_OTHERS
        unsafe = unsafe_folder(path) if is_own else path
    except OSError:
        return None
    if unsafe is None:
        return path
    warnings.warn(
        f"kernels are not cached, because other users can write to {unsafe} or own it: run `chmod go-w {unsafe}`, or "
        "set TRAINER_CACHE_DIR to a folder of your own",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def unsafe_folder(path: Path) -> Path | None:
    """Returns `path` or the nearest parent that lets other users replace the content of `path`; None if none does.

    Each folder must belong to this user or to root and not be writable by others, unless the sticky bit limits others
    to their own files (/tmp). A group whose only member is this user is allowed. A symbolic link must belong to this
    user or to root, and its target must meet the same conditions.
    """
    for each in (path, *path.parents):
        status = os.lstat(each)
        if status.st_uid not in (0, os.getuid()):
            return each
        if stat.S_ISLNK(status.st_mode):
            if (beyond := unsafe_folder(each.parent / os.readlink(each))) is not None:
                return beyond
        elif status.st_mode & stat.S_ISVTX or not status.st_mode & _WRITABLE_BY_OTHERS:
            continue
        elif status.st_mode & stat.S_IWOTH or not is_private_group(status.st_gid):
            return each
    return None


def is_private_group(number: int) -> bool:
    """Whether the group has this user's name and no other member. Most distributions create one for each user."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def size_limit() -> float:
    """Returns the maximum number of bytes in the folder of compiled kernels; `TRAINER_KERNEL_CACHE_GB` changes it.

    Raises:
        TrainerError: the variable is not a number of at least 0.
    """
    found = os.environ.get(LIMIT_VARIABLE) or "5"
    with contextlib.suppress(ValueError):
        if (limit := float(found)) >= 0:
            return limit * 1e9
    raise TrainerError(
        "the size of the cache of compiled kernels can't be read",
        where=LIMIT_VARIABLE,
        found=repr(found),
        expected="gigabytes, such as 5 (the default) or 0.5; 0 keeps nothing, inf has no limit",
    )


def kept(key: str, suffix: str) -> bytes | None:
    """Returns the verified content that `keep` stored under a key, or None if it is missing or damaged."""
    directory = private_directory(cache_directory())
    if directory is None:
        return None
    path = directory / f"{key}{suffix}"
    try:
        blob = path.read_bytes()
    except OSError:
        return None
    digest, content = blob[:_DIGEST_BYTES], blob[_DIGEST_BYTES:]
    if hashlib.sha256(key.encode() + content).digest() != digest:
        return None
    with contextlib.suppress(OSError):  # a read-only folder, or another process has just removed the file
        os.utime(path)
    return content


def keep(key: str, content: bytes, suffix: str) -> None:
    """Stores bytes next to the compiled kernels, for `kept`; without a writable cache nothing is stored."""
    directory = private_directory(cache_directory())
    if directory is None:
        return
    limit = size_limit()
    digest = hashlib.sha256(key.encode() + content).digest()
    try:
        descriptor, temporary = tempfile.mkstemp(dir=directory)
        with os.fdopen(descriptor, "wb") as file:
            file.write(digest + content)
        os.replace(temporary, directory / f"{key}{suffix}")
        if _is_scan_due(digest, len(content), limit):
            remove_least_recently_used(directory, limit * _PART_AFTER_REMOVAL)
    except OSError:
        return  # a full or read-only disk costs compile time, but does not stop a run


def _is_scan_due(digest: bytes, size: int, limit: float) -> bool:
    """Whether to scan the folder after writing a file of `size` bytes, with a probability proportional to `size`.

    So the bytes between two scans do not depend on how many processes write them, and processes share no counter. The
    digest is the random number.
    """
    return size >= int.from_bytes(digest[:4]) / 2**32 * limit * _PART_BETWEEN_SCANS


def remove_least_recently_used(directory: Path, limit: float) -> None:
    """Removes files of a folder, the least recently used first, until the rest take at most `limit` bytes.

    Other processes may read, write and remove files there at the same time: a process that misses one compiles again.

    Raises:
        OSError: the folder can't be read, or a file can't be removed.
    """
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime_ns, status.st_size, entry.path))
    excess = sum(size for _, size, _ in found) - limit
    for _, size, path in sorted(found):
        if excess <= 0:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        excess -= size
