"""Cost of operations without a trace on few numbers, where Python's time matters and that of kernels does not.

python benchmarks/eager.py [operation chain …] [--checkout PATH] [--peer-python PATH] [--json] [--rounds N]

    operation             an operation on 16 numbers whose value is read, relative to the checkout of `--checkout`
    chain                 a chain of 40 operations that is read once, of tensors and of numbers, relative to the same
    unread                a chain of 40 operations that is never read, relative to the same
    new                   a number, index or slice that was not used before, relative to one that is used again
    beside_numpy          operation and chain relative to NumPy, which computes at once and has no history
    beside_torch          operation and chain relative to PyTorch, from the environment of `--peer-python`

The last two have no bar. A ratio is the peer's microseconds divided by ours.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from against import WORKLOADS, Checkout, check
from harness import ROOT, Companion, Family, Figure, checkout_environment, run_figures

from trainer.engine.targets.cpu.topology import available_threads

OPERATIONS = ("add", "number", "exp", "sum", "less")
CHAINS = ("chain", "number_chain")
NEW = {"new_number": "number", "new_index": "index", "new_slice": "slice"}
SCRIPT = "few_numbers.py"

OPERATION_TWICE_AS_FAST = 2.0
CHAIN_A_THIRD_FASTER = 1 / 0.75
UNREAD_NO_SLOWER = 0.9
NEW_AT_MOST = 1 / 1.2
NO_BAR = 0.0


def beside_older(new: Checkout, old: Checkout | None) -> list[Figure | Family]:
    """Figures relative to the older checkout; without one, ours alone."""
    ours, peer = new.lent(SCRIPT, "trainer"), old.lent(SCRIPT, "trainer") if old else None

    def figure(name: str, case: str, bar: float) -> Figure:
        asked = functools.partial(peer, case) if peer else unreachable
        lacks = "" if peer else "--checkout"
        return Figure(
            name, functools.partial(ours, case), lambda python: asked(), bar, unit="µs", needs_peer_python=False,
            lacks=lacks,
        )  # fmt: skip

    def family(name: str, cases: Sequence[str], bar: float) -> Family:
        return Family(name, tuple(figure(f"{name}/{case}", case, bar) for case in cases), bar)

    return [
        family("operation", OPERATIONS, OPERATION_TWICE_AS_FAST),
        family("chain", CHAINS, CHAIN_A_THIRD_FASTER),
        figure("unread", "unread", UNREAD_NO_SLOWER),
    ]


def unreachable() -> float:
    """Placeholder for a missing peer, which is never called."""
    raise AssertionError("the peer is missing")


def new_beside_repeated(checkout: Checkout) -> Family:
    """New numbers, indices and slices relative to repeated ones, in one process."""
    ours = checkout.lent(SCRIPT, "trainer")
    figures = (
        Figure(name, functools.partial(ours, name), functools.partial(ask, ours, case), NEW_AT_MOST, unit="µs",
               needs_peer_python=False)
        for name, case in NEW.items()
    )  # fmt: skip
    return Family("new", tuple(figures), NEW_AT_MOST)


def ask(companion: Companion, case: str, python: str) -> float:
    """Runs a case in our own process, as the peer."""
    return companion(case)


def beside(name: str, checkout: Checkout, peer: Callable[[str], Companion], *, needs_peer_python: bool) -> Family:
    """Operations and chains relative to another library."""
    ours = checkout.lent(SCRIPT, "trainer")

    def figure(case: str) -> Figure:
        return Figure(
            f"{name}/{case}", functools.partial(ours, case), lambda python: peer(python)(case), NO_BAR, unit="µs",
            needs_peer_python=needs_peer_python,
        )  # fmt: skip

    return Family(name, tuple(map(figure, (*OPERATIONS, *CHAINS))), NO_BAR)


@functools.cache
def library(name: str, python: str) -> Companion:
    """Returns a process that runs the cases in another library."""
    threads = str(available_threads())
    environment = checkout_environment(OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads)
    return Companion(python, "-P", str(ROOT / WORKLOADS / SCRIPT), name, environment=environment)


def figures(new: Checkout, old: Checkout | None) -> list[Figure | Family]:
    """Returns all figures."""
    return [
        *beside_older(new, old),
        new_beside_repeated(new),
        beside("beside_numpy", new, lambda python: library("numpy", sys.executable), needs_peer_python=False),
        beside("beside_torch", new, lambda python: library("torch", python), needs_peer_python=True),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--checkout", type=Path)
    own, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="eager-") as folder:
        new = Checkout(ROOT, Path(folder) / "new")
        old = Checkout(own.checkout.resolve(), Path(folder) / "old") if own.checkout else None
        if old:
            check(old)
        raise SystemExit(run_figures(figures(new, old), others))
