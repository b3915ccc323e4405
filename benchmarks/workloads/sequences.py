"""Training steps of recurrent layers (forward, backward, SGD): answers each line of standard input, the name of a case,
with the milliseconds of a step (median of several). `bound NAME` gives, of the engine's scans forward and back, the
fraction of the speed that the machine's multiply-adds and caches, measured just before, would allow.

Usage: sequences.py trainer|torch
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from operations import milliseconds

RATE = 1e-3


@dataclass(frozen=True)
class Case:
    """A layer of as many inputs as units, and its batch; `shortest`: of rows of different lengths."""

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
    """Every way that may be the fastest: of rows of different lengths packed, and padded, which gives the same loss; in
    bfloat16 a layer of such weights, and autocast. (`torch.compile` leaves recurrent layers to the same kernels.)
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
    """The least time of the scans, every multiply-add at the peak and the weights read by their threads once a step,
    divided by the time that they take.
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


if __name__ == "__main__":
    known: dict[str, list[Callable[[], object]]] = {}
    for line in sys.stdin:
        asked, _, name = line.strip().rpartition(" ")
        if asked == "bound":
            print(fraction_of_bound(CASES[name]), flush=True)
            continue
        if name not in known:
            known[name] = in_torch(CASES[name]) if sys.argv[1] == "torch" else [in_trainer(CASES[name])]
            for way in known[name]:
                way()  # compiles, or warms up
        print(min(milliseconds(way) for way in known[name]), flush=True)
