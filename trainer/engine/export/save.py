"""`engine.save_program`, and files of several programs that share their arrays."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.engine.export.capture import Program, capture_program, share_arrays
from trainer.engine.export.graph import PROGRAM
from trainer.engine.safetensors import encoded


def save_program(
    path: str | Path,
    function: Callable[..., Any],
    *args: Any,
    any_batch: bool = False,
    with_updates: bool = False,
    **kwargs: Any,
) -> None:
    """Writes the program of `function(*args, **kwargs)` to `path`, for inputs of these shapes and dtypes.

    Args:
        path: the file; replaced atomically.
        function: a traced step, a plain function of tensors, or a module.
        args: arrays and tensors among them (nested, too) become the program's inputs, named as in `function`; numbers,
            strings and flags become constants.
        any_batch: write a program for any batch size: the first axis of each input is the batch. The function is
            traced at three batch sizes, and its shapes may only differ by multiples of the batch size.
        with_updates: also save the assignments to states, so that the loaded program continues to update them.
            Otherwise states are constants, and a function that assigns to states is rejected. Not with `any_batch`.

    Raises:
        TrainerError: the function assigns to states, returns a value that is not a tensor, does not depend linearly on
            the batch size, or the file can't be written.
    """
    if any_batch and with_updates:
        raise TrainerError("save_program: a program for any batch size is for inference", found="with_updates=True")
    save_programs(
        path, {"": capture_program(function, *args, any_batch=any_batch, with_updates=with_updates, **kwargs)}
    )


def save_programs(path: str | Path, programs: Mapping[str, Program], metadata: Mapping[str, str] | None = None) -> None:
    """Writes programs, each under its name, with shared arrays stored once, and other texts by name.

    Raises:
        TrainerError: the file can't be written.
    """
    shared, arrays = share_arrays(programs)
    documents = {
        entry_of(name): json.dumps(program.document, separators=(",", ":")) for name, program in shared.items()
    }
    _write(Path(path), encoded(arrays, {**(metadata or {}), **documents}))


def entry_of(name: str) -> str:
    """Returns the metadata key of a program: `program`, or `program NAME` among several."""
    return f"{PROGRAM} {name}" if name else PROGRAM


def _write(path: Path, content: bytes) -> None:
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise TrainerError("can't write the program", where=str(path), found=error.strerror or str(error)) from error
