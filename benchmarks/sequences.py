"""Sequence models against PyTorch's best, and scans against what the machine allows.

python benchmarks/sequences.py [lstm_512 attention … bound scan_ways] [--peer-python PATH] [--json] [--rounds N]

    lstm_512, gru_512     128 steps of 4 rows of 512 units: at least 1.5 times PyTorch's speed
    relu_1152             a ReLU RNN, 128 steps of 4 rows of 1,152 units: at least 3.5 times
    lstm_256_ragged       64 rows of 20 to 200 steps of 256 units: at least 1.5 times
    lstm_512_bfloat16     lstm_512 in bfloat16: at least 1.3 times
    attention[_causal]    forward and backward of scaled dot-product attention, batch 4, 8 heads, 1,024 tokens of width
                          64: at least 1.2 times
    attention_bfloat16    the same in bfloat16: at least 1.2 times
    decoder_step          a training step of 4 layers of width 256 with rotary positions, batch 8, 256 tokens: at least
                          1.2 times
    generation            token-by-token generation with the same decoder and a key-value cache: at least 2 times
    lstm_generation       token-by-token generation with two LSTM layers of 512 units: at least 2 times
    bound                 forward and backward scans of each float32 case, as a fraction of the speed that the measured
                          multiply-adds and the caches that hold the weights allow: at least 0.6
    scan_ways             the scan compared with one product per time step, repeated or unrolled, in the engine itself:
                          training and inference of LSTMs of 64 to 1,024 units and of a ReLU RNN, 1 to 256 rows; the
                          time of the faster alternative divided by the scan's: at least 1
    attention_memory      memory of causal attention, forward and backward, at 4,096 tokens relative to 1,024: at most
                          4.2, which is linear in tokens
    attention_layers      largest difference of outputs and gradients of MultiheadAttention, encoder and decoder layers
                          from PyTorch's in float64: at most 1e-9 (the ratio is 1e-9 divided by the difference)
    float32_spread        distance of the weights of recurrent layers (LSTM, GRU, RNN; also ragged, bidirectional and
                          two-layer) after 20 training steps in float32 from PyTorch's in float64, in multiples of the
                          distance of PyTorch's float32 weights: at most 3 (the ratio is 3 divided by the multiple)

A step is forward, backward and optimizer update; the engine's is traced. PyTorch's is the fastest of its ways
(`workloads/sequences.py`, `workloads/attention.py`) and of the OpenMP wait policies; it comes from the environment of
`--peer-python`. Both sides use the same number of threads.
"""

from __future__ import annotations

import functools
import sys
import tempfile

from harness import ROOT, BestPolicy, Companion, Figure, run_figures

from trainer.engine.targets.cpu.topology import available_threads

WORKLOADS = ROOT / "benchmarks" / "workloads"
RECURRENT, ATTENTION, WAYS_TO_WALK = (str(WORKLOADS / f"{name}.py") for name in ("sequences", "attention", "scan_ways"))
WALKED = [
    *[("lstm", 64, batch) for batch in (1, 16, 256)],
    *[("lstm", 512, batch) for batch in (1, 4, 16, 64, 256)],
    *[("lstm", 1024, batch) for batch in (1, 4, 64)],
    *[("relu", 1152, batch) for batch in (1, 4, 64)],
]
"""Cells, units and rows of `scan_ways`."""

BARS = {"lstm_512": 1.5, "relu_1152": 3.5, "gru_512": 1.5, "lstm_256_ragged": 1.5, "lstm_512_bfloat16": 1.3}
ATTENTION_BARS = {
    **dict.fromkeys(("attention", "attention_causal", "attention_bfloat16", "decoder_step"), 1.2),
    "generation": 2.0,
}
ROUNDS = 15
"""Rounds of attention and generation cases. With 7 rounds of three calls of attention, the quartiles of a ratio of 1.34
were 1.08 and 1.37. Its seven products alone reach 0.8 to 0.9 of the peak of two threads, so the machine causes the
differences between rounds.
"""
WAYS = {
    **dict.fromkeys(("decoder_step", "generation"), ("", "_compiled")),
    "lstm_generation": ("_layers", "_cells", "_compiled"),
}
"""Suffixes of the requests to PyTorch, for cases that it can compute in several ways."""
OF_THE_BOUND = 0.6
LINEAR = 4.2
EQUAL = 1e-9
SPREAD = 3.0


@functools.cache
def ours(script: str = RECURRENT) -> Companion:
    """Returns the process of the engine."""
    return Companion(sys.executable, "-P", script, "trainer")


@functools.cache
def in_torch(python: str, script: str = RECURRENT) -> BestPolicy:
    """Returns the processes of PyTorch, one per OpenMP wait policy."""
    threads = str(available_threads())
    return BestPolicy(python, "-P", script, "torch", OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads)


def step(case: str, bar: float) -> Figure:
    """A training step compared with PyTorch's."""
    return Figure(case, lambda: ours()(case), lambda python: in_torch(python)(case), bar)


def against_ways(case: str, bar: float, script: str = ATTENTION) -> Figure:
    """A case compared with the fastest of PyTorch's ways."""
    ways = [case + ending for ending in WAYS.get(case, ("",))]
    return Figure(
        case, lambda: ours(script)(case), lambda python: min(in_torch(python, script)(way) for way in ways), bar,
        rounds=ROUNDS,
    )  # fmt: skip


def bound(case: str) -> Figure:
    """The speed of a scan, as a fraction of the speed that the machine allows."""
    return Figure(f"bound/{case}", lambda: ours()(f"bound {case}"), bar=OF_THE_BOUND, better="higher", unit="of 1")


def ways(cell: str, units: int, batch: int, kept: str) -> Figure:
    """A scan compared with the other ways to run the same layer over time."""
    case = f"{cell} {units} {batch} {kept}"
    return Figure(
        f"scan_ways/{cell}_{units}_{batch}_{kept}",
        lambda: ours(WAYS_TO_WALK)(f"scan {case}"),
        lambda _: min(ours(WAYS_TO_WALK)(f"{way} {case}") for way in ("products", "loop")),
        needs_peer_python=False,
    )


def held_against_torch(name: str, allowed: float, script: str, request: str) -> Figure:
    """The difference of the engine's results from arrays that PyTorch wrote, at most `allowed`."""

    def found(python: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            torch = Companion(python, "-P", script, "torch")
            torch(f"{request} {folder}/arrays.npz")
            torch.close()
            return ours(script)(f"{request} {folder}/arrays.npz")

    return Figure(name, lambda: allowed, found, better="higher", unit="allowed", rounds=1, is_timing=False)


FIGURES = [
    *[step(case, bar) for case, bar in BARS.items()],
    *[against_ways(case, bar) for case, bar in ATTENTION_BARS.items()],
    against_ways("lstm_generation", 2.0, RECURRENT),
    *[bound(case) for case in BARS if not case.endswith("bfloat16")],
    *[ways(*walked, kept) for walked in WALKED for kept in ("forward", "train")],
    Figure(
        "attention_memory",
        lambda: ours(ATTENTION)("arena_4096") / ours(ATTENTION)("arena_1024"),
        bar=LINEAR,
        unit="times",
        rounds=1,
        is_timing=False,
    ),
    held_against_torch("attention_layers", EQUAL, ATTENTION, "layers"),
    held_against_torch("float32_spread", SPREAD, RECURRENT, "spread"),
]


if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
