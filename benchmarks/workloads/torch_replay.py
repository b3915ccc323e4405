"""Repeats in PyTorch the training steps that `recorded.py` recorded, and prints the metrics of each step as JSON.

    torch_replay.py RECIPE FOLDER --threads N [--dtype float64] [--steps N] [--channels-last] [--tested]

The recipe's twin is `Twin` in `twin_RECIPE.py`: the same networks under the same names in plain PyTorch, with PyTorch's
optimizers. With `--tested`, the JSON object also has the twin's metrics on the test split, if it computes any, and, if
the recipe averages its weights, the metrics of the average as "ema/NAME". `twin.npz` and `twin-ema.npz` contain the
weights.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

DTYPES = {"float32": torch.float32, "float64": torch.float64}
Batch = dict[str, torch.Tensor]


class Dropout(nn.Module):
    """Dropout with a given mask for each call."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p, self.masks = p, deque[torch.Tensor]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0:
            return x
        return torch.where(self.masks.popleft(), x * (1 / (1 - self.p)), 0)


class TwinBase(nn.Module):
    """Base of twins. Networks are attributes with the task's names; `optimizers` has the task's optimizers by name."""

    optimizers: dict[str, torch.optim.Optimizer]

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config, self.options = config, config["options"]
        self.normal: dict[str, deque[torch.Tensor]] = {}
        """The step's draws from the normal distribution, by name."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parameters, to which a step converts the float32 values of its batch."""
        return next(self.parameters()).dtype

    def make_optimizers(self) -> None:
        """Creates `optimizers`, after the networks have their weights, dtype and layout."""
        raise NotImplementedError

    def train_step(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Runs one step; returns the metrics that the task reports."""
        raise NotImplementedError

    def test(self, batches: list[Batch]) -> dict[str, float]:
        """Returns the metrics of a split's batches; none if the weights are evaluated elsewhere."""
        return {}

    def minimize(self, loss: torch.Tensor) -> None:
        """Runs a step of the only optimizer."""
        (optimizer,) = self.optimizers.values()
        optimizer.zero_grad()
        loss.backward()
        if (most := self.config["train"]["gradient_clip_norm"]) is not None:
            nn.utils.clip_grad_norm_(self.parameters(), most)
        optimizer.step()

    def let(self, given: dict[str, np.ndarray]) -> None:
        """Sets the masks, normal draws and learning rates of a step."""
        self.normal = {}
        for name in sorted(given):
            if name.startswith("normal/"):
                drawn = torch.from_numpy(given[name])
                self.normal.setdefault(name.split("/")[1], deque()).append(drawn)
        for path, module in self.named_modules():
            if isinstance(module, Dropout):
                module.masks.clear()
                number = 0
                while (name := f"mask/{path}/{number}") in given:
                    module.masks.append(torch.from_numpy(given[name]))
                    number += 1
        self.set_rates({name: float(given[f"rate/{name}"]) for name in self.optimizers})

    def set_rates(self, rates: dict[str, float]) -> None:
        """Sets the learning rate of each optimizer."""
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rates[name]


def adam(networks: nn.Module, section: dict[str, Any], *, fused: bool = False) -> torch.optim.Optimizer:
    """Returns PyTorch's optimizer for an Adam or AdamW section of a config; `fused`: as one kernel, the fastest way."""
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[section["name"]]
    of_vectors = section["weight_decay"] if section["decay_norms_and_biases"] else 0.0
    decaying = [one for one in networks.parameters() if one.ndim >= 2]
    others = [one for one in networks.parameters() if one.ndim < 2]
    groups = [
        {"params": decaying, "weight_decay": section["weight_decay"]},
        {"params": others, "weight_decay": of_vectors},
    ]
    return kind(groups, lr=0.0, betas=tuple(section["betas"]), eps=section["epsilon"], fused=fused)


class Average:
    """An exponential moving average of a module's parameters with the settings of a config's `train.ema`."""

    def __init__(self, module: nn.Module, section: dict[str, Any]) -> None:
        self.module, self.section, self.steps = module, section, 0
        self.values = {name: value.clone() for name, value in module.state_dict().items()}

    def update(self) -> None:
        decay = self.section["decay"]
        if self.section["warmup"]:
            decay = min(decay, (self.steps + 1) / (self.steps + 10))
        for name, value in self.module.state_dict().items():
            self.values[name].lerp_(value, 1 - decay) if value.is_floating_point() else self.values[name].copy_(value)
        self.steps += 1


def twin_of(recipe: str, config: dict[str, Any], weights: dict[str, torch.Tensor], **known: Any) -> TwinBase:
    """Returns a recipe's twin, from the arguments that its class takes: `config`, `weights` (initial), and `known`."""
    kind = importlib.import_module(f"twin_{recipe}").Twin
    asked = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in {"config": config, "weights": weights, **known}.items()
                   if name in asked})  # fmt: skip


def batch_of(given: dict[str, np.ndarray], layout: torch.memory_format) -> Batch:
    """Returns the batch from a file's arrays."""
    batch = {name.partition("/")[2]: torch.from_numpy(values) for name, values in given.items()
             if name.startswith("batch/")}  # fmt: skip
    return {name: values.contiguous(memory_format=layout) if values.ndim == 4 else values
            for name, values in batch.items()}  # fmt: skip


def save(file: Path, values: dict[str, torch.Tensor]) -> None:
    np.savez(file, **{name: value.contiguous().numpy() for name, value in values.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--tested", action="store_true")
    arguments = parser.parse_args()
    torch.set_flush_denormal(True)  # as our traced steps do; threads that start later inherit it
    torch.set_num_threads(arguments.threads)
    folder = arguments.folder
    layout = torch.channels_last if arguments.channels_last else torch.contiguous_format

    weights = {name: torch.from_numpy(values) for name, values in np.load(folder / "weights.npz").items()}
    shape = np.load(folder / "step-0.npz").get("batch/image", np.empty(0)).shape
    config = json.loads((folder / "config.json").read_text())
    twin = twin_of(arguments.recipe, config, weights, **({"image_size": shape[2]} if len(shape) == 4 else {}))
    twin = twin.to(DTYPES[arguments.dtype]).to(memory_format=layout)
    twin.load_state_dict(weights)
    twin.make_optimizers()
    steps = arguments.steps or len(list(folder.glob("step-*.npz")))
    section = twin.config["train"]["ema"]
    average = Average(twin, section) if section and arguments.tested else None
    told = []
    for step in range(steps):
        given = dict(np.load(folder / f"step-{step}.npz"))
        twin.let(given)
        told.append({name: value.item() for name, value in twin.train_step(batch_of(given, layout)).items()})
        if average:
            average.update()
    answer: dict[str, Any] = {"losses": told}
    if arguments.tested:
        twin.eval()
        count = len(list(folder.glob("test-*.npz")))
        batches = [batch_of(dict(np.load(folder / f"test-{number}.npz")), layout) for number in range(count)]
        with torch.no_grad():
            answer["metrics"] = twin.test(batches)
            save(folder / "twin.npz", twin.state_dict())
            if average:
                save(folder / "twin-ema.npz", average.values)
                twin.load_state_dict(average.values)
                answer["metrics"] |= {f"ema/{name}": value for name, value in twin.test(batches).items()}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
