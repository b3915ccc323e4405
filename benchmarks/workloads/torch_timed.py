"""Trains a recipe's twin in PyTorch until a deadline, on batches that another process creates.

    torch_timed.py RECIPE FOLDER --threads N < STREAM

The stream is pickled: first a mapping with `config`, `weights` (before the first step), `rates` (each optimizer's
learning rate at every step of the recipe), `every` (the fraction of the time between validations), `valid` (the batches
of the validation split) and `end` (the deadline by `time.monotonic`); then one batch after another, in the order of the
recipe's loader. The learning rate depends on the elapsed fraction of the time, so the schedule ends at the deadline
after any number of steps. The script writes `FOLDER/twin.npz`, the weights selected by the config's `checkpoint.best`,
and prints JSON: the number of `steps`, and the `metrics` of those weights on the validation split.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_replay import Average, Batch, TwinBase, save, twin_of


def tensors(arrays: dict[str, np.ndarray]) -> Batch:
    return {name: torch.from_numpy(np.array(values)) for name, values in arrays.items()}


class Choice:
    """The best weights so far; those of the moving average if the metric starts with `ema/`."""

    def __init__(self, twin: TwinBase, average: Average | None, valid: list[Batch]) -> None:
        self.twin, self.average, self.valid = twin, average, valid
        section = twin.config["checkpoint"]["best"]
        self.name = section["metric"].removeprefix("valid/")
        self.is_averaged = self.name.startswith("ema/")
        self.sign = 1 if section["mode"] == "max" else -1
        self.metrics: dict[str, float] = {}
        self.weights: dict[str, torch.Tensor] = {}

    def validate(self) -> None:
        own = {name: value.clone() for name, value in self.twin.state_dict().items()}
        if self.is_averaged:
            assert self.average is not None
            self.twin.load_state_dict(self.average.values)
        self.twin.eval()
        with torch.no_grad():
            found = self.twin.test(self.valid)
        self.twin.train()
        value = found[self.name.removeprefix("ema/")]
        if not self.metrics or self.sign * value > self.sign * self.metrics[self.name]:
            self.metrics = {f"ema/{name}" if self.is_averaged else name: number for name, number in found.items()}
            self.weights = {name: each.clone() for name, each in self.twin.state_dict().items()}
        self.twin.load_state_dict(own)


def train(twin: TwinBase, given: dict[str, Any], choice: Choice) -> int:
    """Trains until the deadline; returns the number of steps."""
    start, steps, validations = time.monotonic(), 0, 0
    counts = {name: len(rates) for name, rates in given["rates"].items()}
    while (now := time.monotonic()) < given["end"]:
        share = (now - start) / (given["end"] - start)
        if share >= (validations + 1) * given["every"]:
            choice.validate()
            validations += 1
            continue
        twin.set_rates({name: float(rates[int(share * counts[name])]) for name, rates in given["rates"].items()})
        twin.train_step(tensors(pickle.load(sys.stdin.buffer)))
        if choice.average is not None:
            choice.average.update()
        steps += 1
    choice.validate()
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_flush_denormal(True)  # as our traced steps do
    torch.set_num_threads(arguments.threads)
    given = pickle.load(sys.stdin.buffer)
    torch.manual_seed(given["config"]["seed"])
    weights = tensors(given["weights"])
    twin = twin_of(arguments.recipe, given["config"], weights)
    twin.load_state_dict(weights)
    twin.make_optimizers()
    section = given["config"]["train"]["ema"]
    choice = Choice(twin, Average(twin, section) if section else None, [tensors(batch) for batch in given["valid"]])
    steps = train(twin, given, choice)
    save(arguments.folder / "twin.npz", choice.weights)
    print(json.dumps({"steps": steps, "metrics": choice.metrics}))


if __name__ == "__main__":
    main()
