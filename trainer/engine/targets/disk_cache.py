"""Files kept for later processes: kernels and what belongs to them, private to the user and verified when read.

They are written by rename and hold their own hash: what is loaded is native code.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path

from trainer import cache_folder

_DIGEST_BYTES = 32
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_directory() -> Path:
    """Where compiled kernels are kept; `TRAINER_CACHE_DIR` moves it."""
    return cache_folder() / "objects"


@functools.cache
def private_directory(path: Path) -> Path | None:
    """`path` once it exists and only this user can write there; None, and nothing is cached, where that can't be.

    Users who can write to a parent folder could replace it: `unsafe_folder` must find none.
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
    """The nearest of `path` and its parents that lets other users replace the content of `path`, or None.

    They must belong to this user or to root and not be writable by others, unless the sticky bit lets others replace
    only what is their own (/tmp). A group whose only member is this user is allowed. Symbolic links must
    belong to these two, and lead to where the same holds.
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
    """Whether the group has this user's name and no other member, as most distributions give one to each user."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def kept(key: str, suffix: str) -> bytes | None:
    """What `keep` has kept under a key, verified; None where there is nothing, or something else."""
    directory = private_directory(cache_directory())
    if directory is None:
        return None
    try:
        blob = (directory / f"{key}{suffix}").read_bytes()
    except OSError:
        return None
    digest, content = blob[:_DIGEST_BYTES], blob[_DIGEST_BYTES:]
    return content if hashlib.sha256(key.encode() + content).digest() == digest else None


def keep(key: str, content: bytes, suffix: str) -> None:
    """Store bytes next to the compiled kernels, for `kept`; without a writable cache nothing is stored."""
    directory = private_directory(cache_directory())
    if directory is None:
        return
    try:
        descriptor, temporary = tempfile.mkstemp(dir=directory)
        with os.fdopen(descriptor, "wb") as file:
            file.write(hashlib.sha256(key.encode() + content).digest() + content)
        os.replace(temporary, directory / f"{key}{suffix}")
    except OSError:
        return  # a full or read-only disk costs compile time, never a run
