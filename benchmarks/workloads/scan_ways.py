"""Times ways to run a recurrent layer over time: answers each line of standard input, "WAY CELL UNITS BATCH PASS", with
the milliseconds of STEPS time steps (median of several). Each kernel is chosen by measurement beforehand.

    scan        the scan of `nn.LSTM` and `nn.RNN`: each thread keeps its packed weights, gates are fused
    products    one product per time step, then the gates, recorded once and repeated (`engine.scan`)
    loop        the same, unrolled into the program

PASS is `forward` (inference) or `train` (forward, backward, update). All ways first multiply all inputs in one product,
and at the end compute the weights' gradients as one product.

Usage: scan_ways.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from operations import milliseconds

from trainer import engine
from trainer.engine import nn

STEPS, RATE = 32, 1e-3
GATES = {"lstm": 4, "relu": 1}


def cell(kind: str, x: Any, states: list[Any], w: Any) -> list[Any]:
    """Returns the states after a step from the input product x [B, G·H], states [B, H] and weights [G·H, H]."""
    h, units = states[0], states[0].shape[1]
    product = engine.matmul(h, engine.matrix_transpose(w))
    if kind == "relu":
        return [engine.maximum(x + product, 0.0)]
    i, f, g, o = engine.split(x + product, units, axis=-1)
    c = engine.logistic(f) * states[1] + engine.logistic(i) * engine.tanh(g)
    return [engine.logistic(o) * engine.tanh(c), c]


def walked(way: str, kind: str, x: Any, w: Any) -> Any:
    """Returns the outputs [T, B, H] of all steps, starting from zeros."""
    first = [engine.zeros((x.shape[1], w.shape[1])) for _ in range(2 if kind == "lstm" else 1)]
    if way == "products":

        def step(states: list[Any], part: Any) -> tuple[list[Any], Any]:
            states = cell(kind, part, states, w)
            return states, states[0]

        return engine.scan(step, first, x)[1]
    outputs, states = [], first
    for number in range(x.shape[0]):
        states = cell(kind, x[number], states, w)
        outputs.append(states[0])
    return engine.stack(outputs, axis=0)


def outputs_and_update(way: str, kind: str, units: int, batch: int, *, trains: bool) -> Callable[[], object]:
    """Returns a function that runs STEPS time steps in one of the ways."""
    options = {"nonlinearity": "relu"} if kind == "relu" else {}
    layer = getattr(nn, {"lstm": "LSTM", "relu": "RNN"}[kind])(units, units, bias=False, **options)
    draw = np.random.default_rng(0).standard_normal((2, STEPS, batch, units), dtype=np.float32)
    x, probe = engine.asarray(draw[0]), engine.asarray(draw[1])
    w_ih, w_hh = parameters = layer.parameters()

    def by_scan(x: Any, probe: Any) -> tuple[Any, list[Any]]:
        y = layer(x)[0]
        return y, engine.gradients(engine.sum(y * probe), parameters) if trains else []

    def by_products(x: Any, probe: Any) -> tuple[Any, list[Any]]:
        inputs = engine.matmul(x, engine.matrix_transpose(w_ih))
        y = walked(way, kind, inputs, engine.stop_gradient(w_hh))
        if not trains:
            return y, []
        (by_inputs,) = engine.gradients(engine.sum(y * probe), [inputs])
        flat = engine.matrix_transpose(engine.reshape(by_inputs, (STEPS * batch, GATES[kind] * units)))
        before = engine.concat([engine.zeros((1, batch, units)), y[:-1]], axis=0)
        products = [engine.matmul(flat, engine.reshape(each, (STEPS * batch, units))) for each in (x, before)]
        return y, products

    @engine.trace
    def run(x: Any, probe: Any) -> Any:
        y, gradients = (by_scan if way == "scan" else by_products)(x, probe)
        for parameter, gradient in zip(parameters, gradients, strict=False):
            parameter.assign(parameter - RATE * gradient)
        return engine.sum(y)

    return lambda: float(run(x, probe))


if __name__ == "__main__":
    known: dict[str, Callable[[], object]] = {}
    with engine.tuning("upfront"):
        for line in sys.stdin:
            way, kind, units, batch, kept = line.split()
            if line not in known:
                known[line] = outputs_and_update(way, kind, int(units), int(batch), trains=kept == "train")
                known[line]()  # chooses kernels
            print(milliseconds(known[line]), flush=True)
