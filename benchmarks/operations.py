"""Array and network operations, each compared with the faster of PyTorch and NumPy.

python benchmarks/operations.py [operations chain written_out …] [--peer-python PATH] [--json] [--rounds N]

    operations            sorting, selection, gather, scatter, resampling, norms, einsums, convolutions: each at least
                          0.8 of the faster peer's speed, their geometric mean at least 1.2
    chain                 ten element-wise operations on 4 million numbers: at least 5 times PyTorch's speed
    written_out           a convolution composed of a windows view, broadcasts, a product and a sum: at least a quarter
                          of the speed of the built-in convolution

A ratio is the faster peer's milliseconds divided by ours. Both libraries and the engine use the same number of threads.
The engine runs each case as a traced step, unless the length of the result depends on the data. NumPy is a peer if it
has the operation. PyTorch has no deformable convolution: there it is composed of `grid_sample` and a product, similar
to ours. PyTorch comes from the environment of `--peer-python`.
"""

from __future__ import annotations

import functools
import sys

from harness import ROOT, BestPolicy, Companion, Family, Figure, checkout_environment, run_figures

from trainer.engine.targets.cpu.topology import available_threads

SCRIPT = str(ROOT / "benchmarks" / "workloads" / "operations.py")
IN_NUMPY = ("sort", "argsort", "top_k", "unique", "cumulative_sum", "gather", "scatter", "boolean_selection")
EINSUMS = ("einsum_transposed", "einsum_batched", "einsum_scores", "einsum_values", "einsum_dots")
CASES = (
    *IN_NUMPY, "interpolate", "grid_sample", "deformable_convolution", "embedding_backward", "softmax", "layer_norm",
    *EINSUMS, "conv1d", "conv3d",
)  # fmt: skip

NO_SLOWER_THAN = 0.8
A_FIFTH_FASTER = 1.2
FIVE_TIMES = 5.0
A_QUARTER = 0.25


def _environment() -> dict[str, str]:
    threads = str(available_threads())
    return {f"{library}_NUM_THREADS": threads for library in ("OMP", "OPENBLAS", "MKL")}


@functools.cache
def ours() -> Companion:
    """Returns the process of the engine."""
    return Companion(sys.executable, "-P", SCRIPT, "trainer")


@functools.cache
def in_numpy() -> Companion:
    """Returns the process of NumPy in this environment."""
    environment = checkout_environment(**_environment())
    return Companion(sys.executable, "-P", SCRIPT, "numpy", environment=environment, rests=True)


@functools.cache
def in_torch(python: str) -> BestPolicy:
    """Returns the processes of PyTorch, one per OpenMP wait policy."""
    return BestPolicy(python, "-P", SCRIPT, "torch", **_environment())


def better_peer(case: str, python: str) -> float:
    """Milliseconds of the faster library."""
    times = [in_torch(python)(case)]
    if case in IN_NUMPY or case in EINSUMS:
        times.append(in_numpy()(case))
    return min(times)


def figure(case: str, bar: float) -> Figure:
    """One operation compared with the faster peer."""
    return Figure(case, lambda: ours()(case), lambda python: better_peer(case, python), bar)


FIGURES = [
    Family("operations", tuple(figure(case, NO_SLOWER_THAN) for case in CASES), A_FIFTH_FASTER),
    figure("chain", FIVE_TIMES),
    Figure(
        "written_out",
        lambda: ours()("written_out"),
        lambda python: ours()("built_in"),
        A_QUARTER,
        needs_peer_python=False,
    ),
]


if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
