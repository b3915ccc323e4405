"""Times training steps of recurrent layers (forward, backward, SGD). Each line of standard input names a case; the
answer is the milliseconds of a step (median of several). `bound NAME`: the speed of the engine's forward and backward
scans, as a fraction of the speed that the machine's multiply-adds and caches, measured for this answer, would allow.

`lstm_generation`: milliseconds per token of greedy generation of GENERATED tokens, by two LSTM layers between an
embedding and a linear layer. `spread FILE`: PyTorch writes the weights of layers before and after TRAINED steps in
float64 and in float32. The engine takes the same steps in float32, and answers with the maximum distance of its weights
from the float64 weights, as a multiple of the distance of PyTorch's float32 weights.

Usage: sequences.py trainer|torch
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from operations import milliseconds

RATE = 1e-3
VOCABULARY, WIDTH, LAYERS, GENERATED = 128, 512, 2, 64
FEATURES, HIDDEN, SPREAD_RATE, TRAINED = 24, 40, 5.0, 20
SPREAD_KINDS = {
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {}),
    "tanh": ("RNN", {}),
    "relu": ("RNN", {"nonlinearity": "relu"}),
}
SPREAD_LENGTHS = np.array([17, 30, 1, 9, 24])
"""Row lengths of the ragged cases, which are bidirectional with two layers; the others have one layer."""


@dataclass(frozen=True)
class Case:
    """A layer with as many inputs as units, and its batch. `shortest`: minimum row length if lengths differ."""

    kind: str
    units: int
    batch: int
    steps: int
    shortest: int | None = None
    bfloat16: bool = False

    @property
    def gates(self) -> int:
        return {"LSTM": 4, "GRU": 3}.get(self.kind, 1)

    @property
    def options(self) -> dict[str, str]:
        return {"nonlinearity": "relu"} if self.kind == "RNN" else {}

    @property
    def lengths(self) -> np.ndarray | None:
        if self.shortest is None:
            return None
        return np.random.default_rng(2).integers(self.shortest, self.steps + 1, self.batch)

    def array(self, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((self.steps, self.batch, self.units), dtype=np.float32)


CASES = {
    "lstm_512": Case("LSTM", 512, 4, 128),
    "relu_1152": Case("RNN", 1152, 4, 128),
    "gru_512": Case("GRU", 512, 4, 128),
    "lstm_256_ragged": Case("LSTM", 256, 64, 200, shortest=20),
    "lstm_512_bfloat16": Case("LSTM", 512, 4, 128, bfloat16=True),
}


def in_trainer(case: Case) -> Callable[[], object]:
    from trainer import engine
    from trainer.engine import nn

    dtype = engine.bfloat16 if case.bfloat16 else engine.float32
    layer = getattr(nn, case.kind)(case.units, case.units, **case.options).astype(dtype)
    x, probe = (engine.asarray(case.array(seed), dtype=dtype) for seed in range(2))
    lengths = None if case.lengths is None else engine.asarray(case.lengths.astype(np.int32))
    parameters = layer.parameters()

    @engine.trace
    def step(x: Any, probe: Any, lengths: Any) -> Any:
        loss = engine.sum((layer(x, lengths=lengths)[0] * probe).astype(engine.float32))
        for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
            parameter.assign(parameter - (RATE * gradient).astype(parameter.dtype))
        return loss

    return lambda: float(step(x, probe, lengths))


def in_torch(case: Case) -> list[Callable[[], object]]:
    """Returns every way that may be the fastest. Rows of different lengths: packed, and padded, with the same loss.
    bfloat16: bfloat16 weights, and autocast. (`torch.compile` leaves recurrent layers to the same kernels.)
    """
    import torch

    def steps_of(dtype: torch.dtype, *, autocast: bool, packed: bool) -> Callable[[], object]:
        layer = getattr(torch.nn, case.kind)(case.units, case.units, **case.options).to(dtype)
        optimizer = torch.optim.SGD(layer.parameters(), RATE, fused=True)
        x, probe = (torch.from_numpy(case.array(seed)).to(dtype) for seed in range(2))
        if case.lengths is not None:
            lengths = torch.from_numpy(case.lengths)
            probe = probe * (torch.arange(case.steps)[:, None] < lengths)[:, :, None]

        def step() -> float:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                if packed:
                    rows = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
                    y, _ = torch.nn.utils.rnn.pad_packed_sequence(layer(rows)[0], total_length=case.steps)
                else:
                    y, _ = layer(x)
            loss = (y * probe).float().sum()
            loss.backward()
            optimizer.step()
            return float(loss.detach())

        return step

    if case.bfloat16:
        return [
            steps_of(torch.bfloat16, autocast=False, packed=False),
            steps_of(torch.float32, autocast=True, packed=False),
        ]
    ways = (False, True) if case.shortest is not None else (False,)
    return [steps_of(torch.float32, autocast=False, packed=packed) for packed in ways]


def fraction_of_bound(case: Case) -> float:
    """Returns the minimum time of the scans, with every multiply-add at the peak and the weights read by their threads
    once per step, divided by their measured time.
    """
    from trainer import engine
    from trainer.engine.targets.cpu.peaks import measure, read_bandwidth
    from trainer.engine.targets.cpu.pool import shared_pool

    step = in_trainer(case)
    rows = engine.profile(step, steps=3).rows
    taken = sum(row.seconds for row in rows if row.kernel.startswith("rnn_scan"))
    weights = case.gates * case.units * case.units
    peak = measure(shared_pool()).float32
    bandwidth = read_bandwidth(shared_pool(), 4 * weights)
    lengths = case.lengths if case.lengths is not None else np.full(case.batch, case.steps)
    counts = (lengths[:, None] > np.arange(case.steps)).sum(0)
    each = [max(2 * weights * int(count) / peak, 4 * weights / bandwidth) for count in counts]
    return 2 * sum(each) / taken


def generation_in_trainer() -> Callable[[], float]:
    from trainer import engine
    from trainer.engine import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
            self.recurrent = nn.LSTM(WIDTH, WIDTH, LAYERS)

        def forward(self, token: Any, states: Any) -> Any:
            y, states = self.recurrent(self.embedding(token), states)
            return engine.argmax(self.head(y), axis=2), *states

    network = Network().set_seed(0).eval()
    step = engine.trace(lambda token, h, c: network(token, (h, c)))

    def run() -> float:
        return generated_ms(step, engine.asarray(np.zeros((1, 1), np.int64)), engine.zeros((LAYERS, 1, WIDTH)))

    return run


def generated_ms(step: Callable[..., Any], token: Any, state: Any) -> float:
    """Returns the milliseconds per token; each token is read before the next step."""
    h, c, start = state, state, time.perf_counter()
    for _ in range(GENERATED):
        token, h, c = step(token, h, c)
        token.item()
    return 1e3 * (time.perf_counter() - start) / GENERATED


def generation_in_torch(way: str) -> Callable[[], float]:
    """Returns a timed generation by "layers", by "cells", which are faster on one token, or by "compiled" cells."""
    import torch

    embedding, head = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)
    recurrent = torch.nn.LSTM(WIDTH, WIDTH, LAYERS)
    cells = [torch.nn.LSTMCell(WIDTH, WIDTH) for _ in range(LAYERS)]

    def by_layers(token: Any, h: Any, c: Any) -> Any:
        y, (h, c) = recurrent(embedding(token)[None], (h, c))
        return head(y[0]).argmax(1), h, c

    def by_cells(token: Any, h: Any, c: Any) -> Any:
        y, states = embedding(token), []
        for cell, *own in zip(cells, h, c, strict=True):
            states.append(cell(y, own))
            y = states[-1][0]
        return head(y).argmax(1), *zip(*states, strict=True)

    step = by_layers if way == "layers" else torch.compile(by_cells) if way == "compiled" else by_cells

    def run() -> float:
        with torch.inference_mode():
            return generated_ms(step, torch.zeros(1, dtype=torch.long), torch.zeros(LAYERS, 1, WIDTH))

    return run


def spread_options(*, ragged: bool) -> dict[str, Any]:
    return {"num_layers": 2, "bidirectional": True} if ragged else {}


def spread_in_torch(file: str) -> None:
    """Writes the inputs, and the weights before and after training."""
    import torch

    torch.manual_seed(0)
    held: dict[str, np.ndarray] = {}
    steps, batch = int(SPREAD_LENGTHS.max()), len(SPREAD_LENGTHS)
    for name, (kind, options) in SPREAD_KINDS.items():
        for ragged in (False, True):
            case = f"{name}_{'ragged' if ragged else 'full'}"
            make = getattr(torch.nn, kind)
            first = make(FEATURES, HIDDEN, **options, **spread_options(ragged=ragged)).state_dict()
            x, probe = torch.randn(steps, batch, FEATURES), torch.randn(steps, batch, HIDDEN * (1 + ragged))
            lengths = torch.from_numpy(SPREAD_LENGTHS)
            if ragged:
                probe *= (torch.arange(steps)[:, None] < lengths)[:, :, None]
            held |= {f"{case}/before/{key}": value.numpy() for key, value in first.items()}
            held |= {f"{case}/x": x.numpy(), f"{case}/probe": probe.numpy()}
            for dtype in (torch.float64, torch.float32):
                layer = make(FEATURES, HIDDEN, **options, **spread_options(ragged=ragged)).to(dtype)
                layer.load_state_dict(first)
                optimizer = torch.optim.SGD(layer.parameters(), SPREAD_RATE)
                rows: Any = x.to(dtype)
                if ragged:
                    rows = torch.nn.utils.rnn.pack_padded_sequence(rows, lengths, enforce_sorted=False)
                for _ in range(TRAINED):
                    optimizer.zero_grad()
                    y = layer(rows)[0]
                    y = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=steps)[0] if ragged else y
                    ((y - probe.to(dtype)) ** 2).mean().backward()
                    optimizer.step()
                after = layer.state_dict().items()
                held |= {f"{case}/{str(dtype)[6:]}/{key}": value.numpy() for key, value in after}
    np.savez(file, **held)


def spread_in_trainer(file: str) -> float:
    """Returns the maximum distance from PyTorch in float64, as a multiple of the distance of PyTorch in float32."""
    from trainer import engine
    from trainer.engine import nn

    ratios: list[float] = []
    with np.load(file) as held:
        for name, (kind, options) in SPREAD_KINDS.items():
            for ragged in (False, True):
                case = f"{name}_{'ragged' if ragged else 'full'}"
                layer = getattr(nn, kind)(FEATURES, HIDDEN, **options, **spread_options(ragged=ragged))
                layer.load_state_dict({key: held[f"{case}/before/{key}"] for key in layer.state_dict()})
                x, probe = (engine.asarray(held[f"{case}/{which}"]) for which in ("x", "probe"))
                lengths = SPREAD_LENGTHS if ragged else None

                @engine.trace
                def step(x: Any, probe: Any, layer: Any = layer, lengths: Any = lengths) -> None:
                    loss, parameters = engine.mean((layer(x, lengths=lengths)[0] - probe) ** 2), layer.parameters()
                    for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
                        parameter.assign(parameter - SPREAD_RATE * gradient)

                for _ in range(TRAINED):
                    step(x, probe)
                found = layer.state_dict()
                exact = {key: held[f"{case}/float64/{key}"] for key in found}
                own = {key: held[f"{case}/float32/{key}"] for key in found}
                ratios.append(_distance(found, exact) / _distance(own, exact))
    return float(np.max(ratios))  # NaN if any is


def _distance(weights: dict[str, Any], others: dict[str, np.ndarray]) -> float:
    return float(sum(np.sum((np.asarray(weights[key], np.float64) - others[key]) ** 2) for key in others) ** 0.5)


def measurement(peer: str, request: str) -> Callable[[], float]:
    """Returns the function that measures the requested case."""
    asked, _, name = request.rpartition(" ")
    if asked == "bound":
        return lambda: fraction_of_bound(CASES[name])
    if asked == "spread" and peer == "trainer":
        return lambda: spread_in_trainer(name)
    if asked == "spread":
        return lambda: spread_in_torch(name) or 0.0
    if name.startswith("lstm_generation"):
        way = name.removeprefix("lstm_generation").removeprefix("_")
        run = generation_in_trainer() if peer == "trainer" else generation_in_torch(way)
        run()  # compiles, or warms up
        return run
    ways = in_torch(CASES[name]) if peer == "torch" else [in_trainer(CASES[name])]
    for way in ways:
        way()
    return lambda: min(milliseconds(way) for way in ways)


if __name__ == "__main__":
    known: dict[str, Callable[[], float]] = {}
    for line in sys.stdin:
        request = line.strip()
        if request not in known:
            known[request] = measurement(sys.argv[1], request)
        print(known[request](), flush=True)
