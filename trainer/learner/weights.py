"""Starting from published or earlier weights: a safetensors file whose names fit the model's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainer import TrainerError
from trainer.engine.nn import Module
from trainer.learner.checkpoints.format import read_arrays


def load_weights(path: Path, modules: Mapping[str, Module]) -> None:
    """Load `path` (a safetensors file, or a checkpoint folder) into a task's modules.

    Names are "module.name", as in a checkpoint; where the task has one module, its own names do as well.

    Raises:
        TrainerError: no such file, or names or shapes differ.
    """
    arrays = read_arrays(path / "model.safetensors" if path.is_dir() else path)
    named = {f"{prefix}.{name}" for prefix, module in modules.items() for name in module.named_states()}
    if len(modules) == 1 and not named & set(arrays):
        (prefix,) = modules
        arrays = {f"{prefix}.{name}": array for name, array in arrays.items()}
    strangers = [name for name in arrays if name not in named]
    if strangers:
        raise TrainerError(
            "these weights belong to another model",
            where=str(path),
            found=", ".join(strangers[:10]),
            expected="names of the model",
        )
    for prefix, module in modules.items():
        own = {
            name.removeprefix(f"{prefix}."): array for name, array in arrays.items() if name.startswith(f"{prefix}.")
        }
        module.load_state_dict({name: array.widened() for name, array in own.items()})
