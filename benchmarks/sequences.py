"""Sequence models against PyTorch.

python benchmarks/sequences.py [attention decoder_step generation … ] [--peer-python PATH] [--json] [--rounds N]

    attention, attention_causal   forward and backward of scaled dot-product attention, batch 4, 8 heads, 1,024 tokens
                                  of width 64: at least 1.2 times the speed of PyTorch's
    decoder_step                  a training step of 4 layers of width 256 with rotary positions, batch 8, 256 tokens:
                                  at least 1.2 times PyTorch's, eager or compiled
    generation                    tokens of the same decoder one by one, with a key-value cache: at least twice
                                  PyTorch's, eager or compiled
    attention_memory              memory of causal attention's forward and backward pass at 4,096 tokens, relative to
                                  1,024: at most 4.2, so linear in tokens
    attention_layers              largest difference of outputs and gradients of MultiheadAttention, encoder and decoder
                                  layers from PyTorch's in float64: at most 1e-9 (the ratio
                                  is that by the difference)

A ratio is PyTorch's milliseconds divided by ours. Both get as many threads; ours is a traced step. PyTorch comes from
the environment of `--peer-python`.
"""

from __future__ import annotations

import functools
import sys
import tempfile

from harness import ROOT, BestPolicy, Companion, Figure, run_figures

from trainer.engine.targets.cpu.pool import available_threads

ATTENTION = str(ROOT / "benchmarks" / "workloads" / "attention.py")

A_FIFTH_FASTER = 1.2
TWICE = 2.0
LINEAR = 4.2
EQUAL = 1e-9


@functools.cache
def ours() -> Companion:
    """The engine."""
    return Companion(sys.executable, "-P", ATTENTION, "trainer")


@functools.cache
def in_torch(python: str) -> BestPolicy:
    """PyTorch, its threads waiting by either policy."""
    threads = str(available_threads())
    return BestPolicy(python, "-P", ATTENTION, "torch", OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads)


def figure(case: str, bar: float, *ways: str) -> Figure:
    """A case against the fastest of PyTorch's ways, which are endings of its name."""
    return Figure(
        case, lambda: ours()(case), lambda python: min(in_torch(python)(f"{case}{way}") for way in ways or ("",)), bar
    )


def difference_from_torch(python: str) -> float:
    """Largest of outputs and gradients of layers, whose weights and inputs PyTorch draws."""
    with tempfile.TemporaryDirectory() as folder:
        request = f"layers {folder}/layers.npz"
        torch = Companion(python, "-P", ATTENTION, "torch")
        torch(request)
        torch.close()
        return ours()(request)


FIGURES = [
    figure("attention", A_FIFTH_FASTER),
    figure("attention_causal", A_FIFTH_FASTER),
    figure("decoder_step", A_FIFTH_FASTER, "", "_compiled"),
    figure("generation", TWICE, "", "_compiled"),
    Figure(
        "attention_memory",
        lambda: ours()("arena_4096") / ours()("arena_1024"),
        bar=LINEAR,
        unit="times",
        rounds=1,
        is_timing=False,
    ),
    Figure(
        "attention_layers",
        lambda: EQUAL,
        difference_from_torch,
        better="higher",
        unit="allowed",
        rounds=1,
        is_timing=False,
    ),
]


if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
