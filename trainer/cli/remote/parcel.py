"""The files that a run on another machine needs: the config, the user's Python files, and data that is named."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trainer
from trainer import TrainerError
from trainer.cli.remote.frames import files_below
from trainer.cli.remote.record import there
from trainer.configs import Loaded, dump_resolved
from trainer.rundir import host_name

LEFT_OUT = frozenset({"__pycache__", "runs", "sweeps", "node_modules"})
MOST_CODE_BYTES, MOST_CODE_FILES = 64_000_000, 5_000
"""More than this is not the code of a task, but an unrelated folder that contains it."""


@dataclass(frozen=True)
class Parcel:
    """The files to transfer.

    Attributes:
        config: the resolved config, with the paths of the other machine.
        pairs: folders and files on this machine and on the other one.
        code, data: files by their path there; those of `data` stay there, and later only changes are transferred.
        links: links to create there, for data inside the code's folder, so that the code finds it.
    """

    config: str
    pairs: list[list[str]]
    code: dict[str, Path]
    data: dict[str, Path]
    links: dict[str, str]


def parcel_of(loaded: Loaded, sent: Sequence[str], about: Mapping[str, Any], *, is_remote: bool) -> Parcel:
    """Collects the files that a config needs.

    Python files that the config names are transferred with all Python files in their folders and below. Other files and
    folders are transferred if they are in `sent`. On a shared file system, only the config is.

    Args:
        loaded: the config.
        sent: files and folders to transfer, as given with --send.
        about: the agent's greeting: the folders there.
        is_remote: whether the other machine has a separate file system.

    Raises:
        TrainerError: a file is missing, or the folder of the code is too large.
    """
    text = dump_resolved(loaded)
    package = str(Path(trainer.__file__).resolve().parent)
    pairs = [[package, about["package"]]] if about["package"] != package else []
    code, data, links = dict[str, Path](), dict[str, Path](), dict[str, str]()
    roots = _topmost(folder for folder in _folders_of_code(loaded) if not folder.is_relative_to(package))
    for number, root in enumerate(roots if is_remote else ()):
        other = posixpath.join(about["folder"], "code", str(number), root.name)
        pairs.append([str(root), other])
        code |= {posixpath.join(other, name): path for name, path in _python_files(root).items()}
    for word in sent if is_remote else ():
        path = Path(os.path.abspath(os.path.expanduser(word)))
        if not path.exists():
            raise TrainerError("no such file or folder to send", where="--send", found=word)
        key = hashlib.sha256(f"{host_name()}:{path}".encode()).hexdigest()[:16]
        other = posixpath.join(about["data"], key, path.name)
        if any(path != root and path.is_relative_to(root) for root in roots):
            links[there(str(path), pairs)] = other
            code = {name: file for name, file in code.items() if not file.is_relative_to(path)}
        data[other] = path
        pairs.append([str(path), other])
    return Parcel(there(text, pairs), pairs, code, data, links)


def _folders_of_code(loaded: Loaded) -> Iterator[Path]:
    """The folders of Python files that the config names: of the task, metrics, transforms, schedules.

    Raises:
        TrainerError: a file doesn't exist.
    """
    tree = [*_texts(loaded.config.model_dump(mode="json", exclude={"extends"}))]
    for text in tree:
        file = text if text.endswith(".py") else text.rpartition(":")[0]
        if file.endswith(".py") and os.path.isabs(file):
            if not os.path.isfile(file):
                raise TrainerError(f"no such file: {file}", expected="a Python file that the config names")
            yield Path(file).parent


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _topmost(folders: Iterator[Path]) -> list[Path]:
    """The folders without those inside another one."""
    every = sorted(set(folders))
    return [one for one in every if not any(one != other and one.is_relative_to(other) for other in every)]


def _python_files(root: Path) -> dict[str, Path]:
    found, size = dict[str, Path](), 0
    environments = {file.parent for file in root.glob("*/pyvenv.cfg")}
    left_out = LEFT_OUT | {folder.name for folder in environments}
    for name, (nbytes, _) in files_below(root, left_out=left_out).items():
        if name.endswith(".py") and not LEFT_OUT & {*name.split("/")}:
            found[name] = root / name
            size += nbytes
        if size > MOST_CODE_BYTES or len(found) > MOST_CODE_FILES:
            raise TrainerError(
                "too many Python files next to the task", where=str(root),
                found=f"more than {MOST_CODE_FILES:,} files or {MOST_CODE_BYTES // 1_000_000} MB",
                expected="the code of a project", hint="Put the task into a folder of its own.",
            )  # fmt: skip
    return found
