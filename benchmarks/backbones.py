"""Compares backbones with torchvision's and timm's, with the same random weights that PyTorch saves as a .pth file.

python benchmarks/backbones.py [torchvision_resnet18_outputs …] [--json] --peer-python PATH

Each network has four figures. `names`: arrays whose name or shape differs from the peer's. `outputs` and `gradients`:
the largest difference of the logits, and of any parameter's gradient or running statistic after a step, relative to the
array's largest number, in units of 10^-12, in float64, in training and in inference mode. `recipes`: arrays of the
network that differ from the file after `clothes` loads it with `model.weights`, and `detection` and `segmentation` with
`model.parts.backbone.weights`. The peer's interpreter needs torch, torchvision and timm.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from harness import TINY, Figure, largest, run_figures

from trainer import engine
from trainer.cli.tasks import task_class
from trainer.configs import load
from trainer.learner import Plan
from trainer.learner.task import parts_of
from trainer.learner.weights import load_weights, read_weights, start_from
from trainer.recipes.parts.backbones import Backbone, backbone

PEER = Path(__file__).parent / "workloads" / "torch_backbones.py"
NETWORKS = (
    *(("torchvision", name) for name in ("resnet18", "resnet50", "mobilenet_v3_small", "convnext_tiny")),
    *(("timm", name) for name in ("resnet18", "resnet50")),
)
CLASSES = 5
UNIT, MOST = 1e-12, 1e-9
NEGLIGIBLE = 1e-6
"""Arrays whose numbers are all smaller than this fraction of the network's largest gradient are rounding errors: the
gradient of a shift before a batch norm is 0.
"""
RECIPES = {"clothes": "model.weights", "detection": "model.parts.backbone.weights",
           "segmentation": "model.parts.backbone.weights"}  # fmt: skip


@functools.cache
def found(library: str, name: str, python: str) -> Mapping[str, float]:
    """The four figures of a network."""
    with tempfile.TemporaryDirectory(prefix="backbones-") as folder:
        subprocess.run([python, str(PEER), folder, library, name, str(CLASSES)], check=True)
        weights = Path(folder) / "weights.pth"
        with np.load(Path(folder) / "values.npz") as values:
            network = backbone(name, CLASSES).astype(engine.float64)
            theirs = {key: array.values.shape for key, array in read_weights(weights).arrays.items()}
            names = set(theirs.items()) ^ set(network.named_shapes().items())
            if names:
                return {"names": len(names), "outputs": np.nan, "gradients": np.nan, "recipes": np.nan}
            load_weights(weights, {"network": network})
            outputs, gradients = zip(*(differences(network, mode, values) for mode in ("eval", "train")), strict=True)
            recipes = sum(differing(recipe, key, name, weights) for recipe, key in RECIPES.items())
    return {
        "names": 0, "outputs": largest(outputs) / UNIT, "gradients": largest(gradients) / UNIT, "recipes": recipes,
    }  # fmt: skip


def differences(network: Backbone, mode: str, values: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """The largest relative differences of the logits, and of gradients and running statistics."""
    network.train(mode == "train")
    logits = network(engine.asarray(values["images"]))
    loss = engine.sum(logits * engine.asarray(values["factors"]))
    parameters = network.named_parameters()
    gradients = engine.gradients(loss, list(parameters.values()))
    engine.evaluate(logits, *gradients)
    ours = {f"{mode} gradient {key}": one.numpy() for key, one in zip(parameters, gradients, strict=True)}
    ours |= {f"{mode} buffer {key}": state.numpy() for key, state in network.named_states().items()}
    others = {key: value for key, value in values.items() if key.startswith((f"{mode} gradient ", f"{mode} buffer "))}
    least = NEGLIGIBLE * max(np.abs(value).max() for key, value in others.items() if "gradient" in key)
    return (
        relative(logits.numpy(), values[f"{mode} logits"]),
        largest(relative(ours[key], value, least) for key, value in others.items()),
    )


def relative(ours: np.ndarray, theirs: np.ndarray, least: float = 0.0) -> float:
    """Returns the largest difference, relative to the largest of `theirs` or to `least`; NaN if a number is NaN."""
    return float(np.abs(ours - theirs).max() / max(least, np.abs(theirs).max()))


def differing(recipe: str, key: str, name: str, weights: Path) -> int:
    """Returns the number of arrays of the recipe's backbone, without the head, that differ from the file's."""
    loaded = load(recipe, [f"options.backbone={name}", f"{key}={weights}"])
    task: Any = task_class(loaded.task)(loaded.config, loaded.options)
    task.class_names, task.plan = tuple(map(str, range(CLASSES + 1))), Plan(1, 10)
    task.build()
    for line in start_from(loaded.config.model, parts_of(task).modules, task.head):
        print(line)
    network = task.network if recipe == "clothes" else task.network.backbone
    own, file = network.state_dict(), read_weights(weights).arrays
    heads = {each for each in own for head in task.head if fnmatchcase(f"network.{each}", head)}
    return sum(not np.array_equal(own[each], file[each].values.astype(own[each].dtype)) for each in set(own) - heads)


def figures(python: str) -> Iterator[Figure]:
    """Yields four figures for each network."""
    bounds = {"names": TINY, "outputs": MOST / UNIT, "gradients": MOST / UNIT, "recipes": TINY}
    for library, name in NETWORKS:
        for what, bound in bounds.items():
            unit = "arrays" if bound == TINY else "1e-12"

            def ours(library: str = library, name: str = name, what: str = what) -> float:
                return found(library, name, python)[what]

            yield Figure(f"{library}_{name}_{what}", ours, bar=bound, unit=unit, rounds=1, is_timing=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peer-python", default=sys.executable)
    own, others = parser.parse_known_args()
    raise SystemExit(run_figures(list(figures(own.peer_python)), [*others, f"--peer-python={own.peer_python}"]))
