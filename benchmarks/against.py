"""Compares this checkout with an older one of the project, alternating in one run.

python benchmarks/against.py --checkout PATH [steps guards_200 contractions bits …] [--json] [--rounds N]

    steps         the training steps of cpu.py, each a figure; the geometric mean of their ratios is held to the bar
    guards_200    a call of a traced step with 200 parameters
    contractions  the families of cpu.py; figures of their layers have names like `conv_forward/8x64x56x64x3x1x1`
    bits          the share of workloads (digits, and the steps) whose losses and states after 20 steps have the same
                  bits in both checkouts; standard error names those that differ

A ratio is the older checkout's milliseconds divided by this one's. Each side runs its own `benchmarks/contractions.py`
and `benchmarks/workloads/ours.py` in processes whose working directory is its root, and keeps its compiled kernels in a
folder that is empty at first. Scripts that an older checkout may lack (`guarded.py`, `digest.py`) are this one's on
both sides.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import contractions
from harness import ROOT, Companion, Family, Figure, run_figures
from steps import HEADLINES, STEPS

from trainer.engine.targets.cpu.topology import available_threads

WORKLOADS = Path("benchmarks/workloads")
NO_SLOWER = 0.99
GUARDS_NO_SLOWER = 0.98
ALONE_NO_SLOWER = 0.9
"""The bar of one step or layer, whose ratio scatters more than a mean of many."""

WAYS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in STEPS},
    **{f"{name}_bfloat16": (name, "--bfloat16") for name in ("resnet50", "lsgan")},
    **{f"{name}_fast": (name, "--numerics=fast") for name in HEADLINES},
}
"""Each step, and the words that ask a script for it."""


@dataclass(frozen=True)
class Checkout:
    """A checkout of the project, and where its processes keep compiled kernels."""

    root: Path
    cache: Path

    def environment(self) -> dict[str, str]:
        """Variables for its processes, which import the package, tests and workloads from this checkout alone."""
        folders = (self.root, self.root / "benchmarks", self.root / WORKLOADS)
        path = os.pathsep.join(map(str, folders))
        return {**os.environ, "PYTHONPATH": path, "TRAINER_CACHE_DIR": str(self.cache)}

    def own(self, script: str, *words: str) -> Companion:
        """A process that answers by a workload script of the checkout itself."""
        return self._companion(self.root / WORKLOADS / script, *words)

    def lent(self, script: str, *words: str) -> Companion:
        """The same by a script of the checkout that this file is in."""
        return self._companion(ROOT / WORKLOADS / script, *words)

    def output(self, *command: str) -> str:
        """What a Python command prints.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        command = (sys.executable, "-P", *command)
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=self.environment(), cwd=self.root
        )
        return done.stdout.strip()

    def _companion(self, script: Path, *words: str) -> Companion:
        command = (sys.executable, "-P", str(script), *words)
        return Companion(*command, environment=self.environment(), folder=self.root)


def compared(name: str, bar: float, ours: Callable[[], float], peer: Callable[[], float]) -> Figure:
    """A figure of two processes of this interpreter."""
    return Figure(name, ours, lambda python: peer(), bar, needs_peer_python=False)


def steps(new: Checkout, old: Checkout) -> Family:
    """Training steps, all by as many threads."""

    def side(checkout: Checkout, workload: str, *words: str) -> Companion:
        fixed = (f"--steps={STEPS[workload]}", f"--threads={available_threads()}")
        return checkout.own("ours.py", workload, *fixed, *words)

    figures = (compared(name, ALONE_NO_SLOWER, side(new, *words), side(old, *words)) for name, words in WAYS.items())
    return Family("steps", tuple(figures), NO_SLOWER)


def guards(new: Checkout, old: Checkout) -> Figure:
    """The call of a step with 200 parameters; by one thread, for three quarters of it are Python."""
    ours, peer = (checkout.lent("guarded.py", "--threads=1") for checkout in (new, old))
    return compared("guards_200", GUARDS_NO_SLOWER, ours, peer)


def layers(new: Checkout, old: Checkout) -> Family:
    """Contractions, all layers of a side in one process; those against NumPy have the kernels of `matmul`."""
    ours, peer = new.lent("contraction.py"), old.lent("contraction.py")

    def figure(name: str, asked: object) -> Figure:
        assert isinstance(asked, functools.partial)
        kind, numbers = asked.args
        request = f"{kind} {' '.join(map(str, numbers))}"
        return compared(name, ALONE_NO_SLOWER, functools.partial(ours, request), functools.partial(peer, request))

    families = [family for family in contractions.FAMILIES if family.name != "matmul_beside_numpy"]
    return Family(
        "contractions",
        tuple(
            replace(family, figures=tuple(figure(part.name, part.ours) for part in parts_of(family)), bar=NO_SLOWER)
            for family in families
        ),
        NO_SLOWER,
    )


def parts_of(family: Family) -> list[Figure]:
    """The figures of a family that has no families in it."""
    return [part for part in family.figures if isinstance(part, Figure)]


def bits(new: Checkout, old: Checkout) -> Figure:
    """Whether training computes the same numbers; it takes minutes, so `--rounds` does not repeat it."""

    @functools.cache
    def equal() -> float:
        asked = {"digits": ("digits",), **WAYS}
        script = str(ROOT / WORKLOADS / "digest.py")
        ours, peer = (
            {name: checkout.output(script, *words) for name, words in asked.items()} for checkout in (new, old)
        )
        return share_equal(ours, peer)

    return Figure("bits", equal, bar=1.0, better="higher", unit="of 1", rounds=1, is_timing=False)


def share_equal(ours: dict[str, str], peer: dict[str, str]) -> float:
    """The share of digests that are equal; standard error names the others."""
    different = [name for name in ours if not ours[name] or ours[name] != peer.get(name)]
    for name in different:
        print(f"bits: {name}: {ours[name]}, the older checkout: {peer.get(name)}", file=sys.stderr)
    return 1 - len(different) / len(ours)


def check(checkout: Checkout) -> None:
    """Refuse a folder whose processes would import the package from elsewhere.

    Raises:
        SystemExit: it is no checkout.
    """
    if not (checkout.root / WORKLOADS / "ours.py").is_file():
        raise SystemExit(f"--checkout {checkout.root}: no checkout of the project: there is no {WORKLOADS / 'ours.py'}")
    imported = Path(checkout.output("-c", "import trainer; print(trainer.__file__)")).resolve()
    if not imported.is_relative_to(checkout.root):
        raise SystemExit(f"--checkout {checkout.root}: its processes import {imported}")


def figures(new: Checkout, old: Checkout) -> Sequence[Figure | Family]:
    """All that is compared."""
    return [steps(new, old), guards(new, old), layers(new, old), bits(new, old)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--checkout", type=Path, required=True)
    own, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="against-") as folder:
        both = (Checkout(ROOT, Path(folder) / "new"), Checkout(own.checkout.resolve(), Path(folder) / "old"))
        for checkout in both:
            check(checkout)
        raise SystemExit(run_figures(figures(*both), others))
