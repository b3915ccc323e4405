"""Files of weights, whatever wrote them: our checkpoints, safetensors, NumPy archives, PyTorch's files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainer import TrainerError
from trainer.learner.checkpoints.format import Array, pointed, read_arrays, read_group
from trainer.learner.checkpoints.keeper import checkpoint_folder

PYTORCH = (".pt", ".pth", ".bin", ".ckpt")


@dataclass(frozen=True)
class Weights:
    """The arrays of a file by name; `format` says what it is, in words."""

    arrays: dict[str, Array]
    format: str
    path: Path


def read_weights(path: Path, entry: str | None = None) -> Weights:
    """The arrays of `path`: a file of a known ending, a checkpoint, or a run directory (its latest checkpoint).

    `checkpoints/best` of a run directory is the best one's.

    Args:
        entry: of a checkpoint, "model" (the default) or "ema"; of a PyTorch file, the dictionary to take.

    Raises:
        TrainerError: there is nothing, nothing that can be read, or something that is not what its name says.
    """
    try:
        if path.is_dir() or pointed(path.parent, path.name):
            folder = checkpoint_folder(path)
            return Weights(read_group(folder, entry or "model"), "a checkpoint", folder)
        with open(path, "rb") as file:
            head = file.read(8)
        if path.suffix == ".npz":  # the readers are imported when they are used: most runs start from nothing
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
            "can't read weights", where=str(path), found=(error.strerror or str(error)).lower()
        ) from error
