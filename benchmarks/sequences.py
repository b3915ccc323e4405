"""Training steps of recurrent layers against PyTorch's best, and their scans against what the machine allows.

python benchmarks/sequences.py [lstm_512 relu_1152 … bound] [--peer-python PATH] [--json] [--rounds N]

    lstm_512, gru_512     128 steps of 4 rows of 512 units: at least 1.5 times PyTorch's speed
    relu_1152             a ReLU RNN, 128 steps of 4 rows of 1,152 units: at least 3.5 times
    lstm_256_ragged       64 rows of 20 to 200 steps of 256 units: at least 1.5 times
    lstm_512_bfloat16     at least 1.3 times
    bound                 the scans of each case of float32, forward and back, as a fraction of the speed that measured
                          multiply-adds and the caches that hold the weights allow: at least 0.6

A step is forward, backward and SGD, traced here. PyTorch's is the best of its ways (`workloads/sequences.py`), its
threads waiting by either policy; it comes from the environment of `--peer-python`. Both get as many threads.
"""

from __future__ import annotations

import functools
import sys

from harness import ROOT, BestPolicy, Companion, Figure, run_figures

from trainer.engine.targets.cpu.pool import available_threads

SCRIPT = str(ROOT / "benchmarks" / "workloads" / "sequences.py")
BARS = {"lstm_512": 1.5, "relu_1152": 3.5, "gru_512": 1.5, "lstm_256_ragged": 1.5, "lstm_512_bfloat16": 1.3}
OF_THE_BOUND = 0.6


@functools.cache
def ours() -> Companion:
    """The engine."""
    return Companion(sys.executable, SCRIPT, "trainer")


@functools.cache
def in_torch(python: str) -> BestPolicy:
    """PyTorch, its threads waiting by either policy."""
    threads = str(available_threads())
    return BestPolicy(python, SCRIPT, "torch", OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads)


def step(case: str, bar: float) -> Figure:
    """A training step against PyTorch's."""
    return Figure(case, lambda: ours()(case), lambda python: in_torch(python)(case), bar)


def bound(case: str) -> Figure:
    """A scan against the machine."""
    return Figure(f"bound/{case}", lambda: ours()(f"bound {case}"), bar=OF_THE_BOUND, better="higher", unit="of 1")


FIGURES = [
    *[step(case, bar) for case, bar in BARS.items()],
    *[bound(case) for case in BARS if not case.endswith("bfloat16")],
]


if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
