"""Reads weights files of any origin: checkpoints of trainer, safetensors, NumPy archives, PyTorch files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.engine.export.graph import PROGRAM
from trainer.learner.checkpoints.format import Array, pointed, read_arrays, read_group, read_state
from trainer.learner.checkpoints.keeper import checkpoint_folder
from trainer.learner.weights.download import metadata_of, normalization_in

_CONSTANT = re.compile(r"constant( \(\d+\))*")
"""The names of a program's arrays that are not states."""
PYTORCH = (".pt", ".pth", ".bin", ".ckpt")


@dataclass(frozen=True)
class Weights:
    """The arrays of a file by name; `format` is its format as text."""

    arrays: dict[str, Array]
    format: str
    path: Path


def read_weights(path: Path, entry: str | None = None) -> Weights:
    """The arrays of `path`: a file with a known extension, an exported model, a checkpoint, or a run directory (its
    best checkpoint if it has one, otherwise the latest).

    Args:
        entry: for a checkpoint, "model" or "ema"; None: the averaged weights if it predicts with them. For a PyTorch
            file, the dictionary to use.

    Raises:
        TrainerError: the file is missing, unreadable, or not in the format of its extension.
    """
    try:
        if is_checkpoint(path):
            folder = chosen_checkpoint(path)
            stem = entry or ("ema" if selects_averages(_config_of(folder)) else "model")
            return Weights(read_group(folder, stem), "a checkpoint", folder)
        with open(path, "rb") as file:
            head = file.read(8)
        if path.suffix == ".npz":  # readers are imported on first use: most runs need none
            from trainer.learner.weights.numpy_archive import read_numpy

            return Weights(read_numpy(path), "a NumPy archive", path)
        if path.suffix != ".safetensors" and (path.suffix in PYTORCH or head[:4] == b"PK\x03\x04"):
            if not head:
                raise TrainerError("not a PyTorch file", where=str(path), found="an empty file")
            from trainer.learner.weights.pytorch import read_pytorch

            return Weights(read_pytorch(path, entry), "a PyTorch file", path)
        arrays = read_arrays(path)
        if any(name.partition(" ")[0] == PROGRAM for name in metadata_of(path)):
            named = {name: array for name, array in arrays.items() if not _CONSTANT.fullmatch(name)}
            return Weights(named, "an exported model", path)
        return Weights(arrays, "a safetensors file", path)
    except OSError as error:
        raise TrainerError(
            "unsupported weights file", where=str(path), found=(error.strerror or str(error)).lower()
        ) from error


def is_checkpoint(path: Path) -> bool:
    """Whether the path is a run, a checkpoint, or a run's pointer to one."""
    return path.is_dir() or pointed(path.parent, path.name) is not None


def chosen_checkpoint(path: Path) -> Path:
    """The checkpoint with the weights of `path`; for a run, its best one, or the latest without a best one.

    Raises:
        TrainerError: no checkpoint there.
    """
    best = path / "checkpoints" / "best"
    return checkpoint_folder(best if pointed(best.parent, best.name) else path)


def selects_averages(config: Mapping[str, Any]) -> bool:
    """Whether a model of this resolved config uses averaged weights: the config has them, and the metric that selects
    checkpoints belongs to them, or no metric selects checkpoints.
    """
    from trainer.configs.declaration_checks import AVERAGED

    if not config.get("train", {}).get("ema"):
        return False
    best = config.get("checkpoint", {}).get("best")
    return not best or str(best["metric"]).partition("/")[2].startswith(AVERAGED)


def normalization_of(path: Path) -> Mapping[str, Any] | None:
    """The normalization with which the weights of `path` were trained; None if unknown.

    Raises:
        TrainerError: no checkpoint there, or a damaged one.
    """
    if is_checkpoint(path):
        found: Mapping[str, Any] | None = _config_of(chosen_checkpoint(path)).get("model", {}).get("normalization")
        return found
    if path.suffix == ".npz" or path.suffix in PYTORCH:
        return None
    return normalization_in(metadata_of(path))


def _config_of(folder: Path) -> Mapping[str, Any]:
    """The resolved config of a checkpoint; empty if it was written without one."""
    config = read_state(folder).get("config")
    return config if isinstance(config, Mapping) else {}
