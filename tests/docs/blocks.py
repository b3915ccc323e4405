"""The code blocks of a page, and the folders and names in which they run."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LANGUAGES = {"sh", "python", "yaml", "json", "text"}
"""`sh` and `python` are run, `yaml` and `json` are checked, `text` is output or a listing of files."""
_BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SHIM = """\
#!{python}
import json, os, sys
from trainer.cli import main
words, small = sys.argv[1:], json.loads(os.environ["SMALL"])
if words and words[0] in ("run", "autotune", "find-lr", "profile", "sweep") and "--resume" not in words:
    words += small.get(next((word for word in words[1:] if word in small), ""), [])
if __name__ == "__main__":
    sys.exit(main(words))
"""
"""The command of the pages: `trainer`, with options that make the training of a recipe small."""


@dataclass(frozen=True)
class Block:
    """One block: its language, its text, and the line of its first line."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return [Block(found[2], found[3], text.count("\n", 0, found.start(3)) + 1) for found in _BLOCK.finditer(text)]


class Shell:
    """Runs shell blocks as a user would, with `trainer` and harmless stand-ins for `pip` and the like first on PATH."""

    def __init__(self, folder: Path, repository: Path, small: Mapping[str, Sequence[str]]) -> None:
        self.folder = folder
        programs = folder.parent / "programs"
        programs.mkdir()
        for name, text in {
            "trainer": SHIM.format(python=sys.executable),
            "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
            "pip": "#!/bin/sh\n",
            "pytest": "#!/bin/sh\n",
        }.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(repository),
            "SMALL": json.dumps({name: list(words) for name, words in small.items()}),
        }

    def run(self, block: Block) -> None:
        """Run a block; every command has to succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text], cwd=self.folder, env=self.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"line {block.line}:\n{block.text}\n{done.stdout[-2000:]}\n{done.stderr}"


def run_page(page: Path, shell: Shell, names: dict[str, Any]) -> None:
    """Run the blocks of a page from top to bottom, Python in one namespace."""
    for block in blocks(page):
        if block.language == "sh":
            shell.run(block)
        elif block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, names)


def write_pytorch_file(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """A state dictionary of float32 arrays as `torch.save` writes it."""
    torch, utilities = types.ModuleType("torch"), types.ModuleType("torch._utils")

    class FloatStorage:
        pass

    def _rebuild_tensor_v2() -> None:
        pass

    for module, value in ((torch, FloatStorage), (utilities, _rebuild_tensor_v2)):
        value.__module__, value.__qualname__ = module.__name__, value.__name__
        setattr(module, value.__name__, value)

    class Storage:
        def __init__(self, key: str, size: int) -> None:
            self.id = ("storage", FloatStorage, key, "cpu", size)

    class Tensor:
        def __init__(self, key: str, array: np.ndarray) -> None:
            strides = tuple(stride // array.itemsize for stride in array.strides)
            self.parts = (Storage(key, array.size), 0, array.shape, strides, False, OrderedDict())

        def __reduce__(self) -> tuple[Any, ...]:
            return _rebuild_tensor_v2, self.parts

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return value.id if isinstance(value, Storage) else None

    contiguous = {name: np.array(array, np.float32, order="C") for name, array in arrays.items()}
    tensors = OrderedDict((name, Tensor(str(key), array)) for key, (name, array) in enumerate(contiguous.items()))
    sys.modules.update({"torch": torch, "torch._utils": utilities})
    try:
        with zipfile.ZipFile(path, "w") as archive:
            with archive.open("archive/data.pkl", "w") as file:
                Pickler(file, protocol=2).dump(tensors)
            for key, array in enumerate(contiguous.values()):
                archive.writestr(f"archive/data/{key}", array.tobytes())
    finally:
        del sys.modules["torch"], sys.modules["torch._utils"]


def copied(source: Path, target: Path) -> Path:
    """A copy of a folder."""
    return Path(shutil.copytree(source, target))


def fences(page: Path) -> Iterator[str]:
    """The opening line of every block, also of one that is not closed."""
    is_open = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.strip().startswith("```"):
            if not is_open:
                yield line.strip().removeprefix("```")
            is_open = not is_open
    assert not is_open, f"{page}: a block is not closed"
