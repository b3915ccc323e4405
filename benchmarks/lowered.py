"""Digests of a recipe's lowered programs, on which its results and seconds depend; they are not compiled or run.

python benchmarks/lowered.py digits '{"vectors": 8, ...}'     prints the digest for a machine (default: this machine)
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import ROOT  # also makes the checkout importable

from tests.engine.golden.listing import listing_of
from tests.engine.golden.lowering import as_graph, forget_constants, lowered
from trainer import engine
from trainer.configs import load
from trainer.engine import targets
from trainer.engine.graph.node import Node
from trainer.engine.graph.signature import signature
from trainer.engine.graph.storage import Storage
from trainer.engine.targets import Device, Run
from trainer.engine.targets.cpu.machine import Machine, host_machine
from trainer.learner import Learner
from trainer.learner.task import model_states

__all__ = ["ROOT", "program_digest"]


class LoweringDevice(Device):
    """Computes untraced values like the `cpu` device; keeps the text of traced steps, whose results are zeros."""

    name = "cpu"

    def __init__(self, numerics: Any, machine: Machine) -> None:
        self._numerics, self._machine, self._computing = numerics, machine, targets.get("cpu")
        self._signatures: set[Any] = set()
        self.texts: list[str] = []

    def evaluate(self, nodes: Sequence[Node]) -> Run:
        key, _ = signature(nodes)
        if key not in self._signatures:
            self._signatures.add(key)
            self._keep(nodes, (), (), flush=False)
        return self._computing.evaluate(nodes)

    def compile(
        self,
        results: Sequence[Node],
        updates: Sequence[tuple[Storage, Node]] = (),
        inputs: Sequence[Node] = (),
        *,
        flush: bool = False,
        progress: Any = None,
    ) -> Any:
        self._keep(results, updates, inputs, flush=flush)
        return _Zeros(results)

    def _keep(
        self, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]], inputs: Sequence[Node], *, flush: bool
    ) -> None:
        graph = as_graph(results, updates, inputs, flush=flush)
        listing = listing_of(graph, lowered(graph, self._numerics.class_, self._numerics.bfloat16, self._machine))
        self.texts.append(listing.launches + listing.kernel_text)


class _Zeros:
    """Takes the place of a compiled program; its results are zeros."""

    def __init__(self, results: Sequence[Node]) -> None:
        self._results = [(node.shape, node.dtype) for node in results]

    def run(self, inputs: Sequence[Storage]) -> Run:
        return Run(Storage.of(np.zeros(shape, dtype.storage), dtype) for shape, dtype in self._results)


def program_digest(recipe: str, machine: Machine | None = None) -> str:
    """Returns the digest of the initial values of a recipe's networks, and of the launches and kernels of its training
    step, its validation step and the computations before them, for a machine (default: this machine).
    """
    loaded = load(recipe, ["autotune.mode=off", "data.workers=0"])
    task_class = getattr(loaded.task.import_module(), loaded.task.class_name)
    device = LoweringDevice(loaded.config.numerics, machine or host_machine())
    forget_constants()
    with engine.device(device):
        training = Learner(task_class, loaded.config, loaded.options)._prepare()
        try:
            device.texts += [f"{name} {hashlib.sha256(np.ascontiguousarray(state.numpy())).hexdigest()}"
                             for name, state in model_states(training.parts).items()]  # fmt: skip
            training.rehearse()
        finally:
            training.measuring.close()
    return hashlib.sha256("\n".join(device.texts).encode()).hexdigest()


if __name__ == "__main__":
    name, *described = sys.argv[1:]
    print(program_digest(name, *(Machine(**json.loads(each)) for each in described)))
