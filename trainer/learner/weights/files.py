"""Reads weights files of any origin: checkpoints of trainer, safetensors, NumPy archives, PyTorch files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainer import TrainerError
from trainer.learner.checkpoints.format import Array, pointed, read_arrays, read_group
from trainer.learner.checkpoints.keeper import checkpoint_folder

PYTORCH = (".pt", ".pth", ".bin", ".ckpt")


@dataclass(frozen=True)
class Weights:
    """The arrays of a file by name; `format` is its format as text."""

    arrays: dict[str, Array]
    format: str
    path: Path


def read_weights(path: Path, entry: str | None = None) -> Weights:
    """The arrays of `path`: a file with a known extension, a checkpoint, or a run directory (its latest checkpoint).

    `checkpoints/best` of a run directory is the best one's.

    Args:
        entry: for a checkpoint, "model" (the default) or "ema"; for a PyTorch file, the dictionary to use.

    Raises:
        TrainerError: the file is missing, unreadable, or not in the format of its extension.
    """
    try:
        if path.is_dir() or pointed(path.parent, path.name):
            folder = checkpoint_folder(path)
            return Weights(read_group(folder, entry or "model"), "a checkpoint", folder)
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
        return Weights(read_arrays(path), "a safetensors file", path)
    except OSError as error:
        raise TrainerError(
            "unsupported weights file", where=str(path), found=(error.strerror or str(error)).lower()
        ) from error
