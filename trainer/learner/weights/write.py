"""Writes weights for other programs: safetensors under the names of a PyTorch state dictionary, and NumPy archives."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.safetensors import encoded
from trainer.learner.checkpoints.format import Array
from trainer.learner.weights.download import NORMALIZATION
from trainer.learner.weights.matching import Selection, shown
from trainer.rundir import replacing, write_error


def selected(arrays: Mapping[str, Array], selection: Selection, part: str = "", *, where: str) -> dict[str, Array]:
    """The selected arrays under their new names; those of a `part`, such as "network.backbone", without its prefix.

    Raises:
        TrainerError: nothing is left, two arrays get one name, or a regular expression is invalid.
    """
    prefix = f"{part}." if part else ""
    kept: dict[str, Array] = {}
    for name, array in arrays.items():
        try:
            changed = selection.renamed(name)
        except (re.error, IndexError) as error:
            raise TrainerError("not a regular expression, or invalid replacement", found=str(error)) from error
        if not changed.startswith(prefix) or not selection.wants(changed := changed.removeprefix(prefix)):
            continue
        if changed in kept:
            raise TrainerError(f"two arrays would be named {changed!r}", where=where)
        kept[changed] = array
    if not kept:
        raise TrainerError("no array is left", where=where, expected=f"names such as {shown(list(arrays)[:5])}")
    return kept


def write_weights(target: Path, arrays: Mapping[str, Array], *, normalization: Mapping[str, Any] | None = None) -> int:
    """Writes a `.safetensors` or `.npz` file atomically; returns its size in bytes. NumPy has no bfloat16: such arrays
    become float32.

    Layouts are PyTorch's: weights of linear layers [out, in], of convolutions [out, in, height, width]. `normalization`
    is `mean` and `std` of the network's images, which a safetensors file keeps in its header.

    Raises:
        TrainerError: it can't be written.
    """
    if target.suffix == ".npz":
        buffer = io.BytesIO()
        values = {f"{name}.npy": array.widened() for name, array in arrays.items()}
        _write_npz(buffer, values)
        content = buffer.getvalue()
    else:
        metadata = {"format": "pt"} | ({} if normalization is None else {NORMALIZATION: json.dumps(normalization)})
        content = encoded({name: (array.values, array.dtype) for name, array in arrays.items()}, metadata)
    try:
        with replacing(target) as aside:
            aside.write_bytes(content)
    except OSError as error:
        raise write_error(target, error) from error
    return len(content)


def _write_npz(buffer: io.BytesIO, values: Mapping[str, np.ndarray]) -> None:
    """Replaces numpy.savez, whose names are keyword arguments: an array named `file` would be lost."""
    import zipfile

    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in values.items():
            with archive.open(name, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
