"""Compares this checkout with an older one of the project, alternating in one run.

python benchmarks/against.py --checkout PATH [steps guards_200 contractions bits …] [--json] [--rounds N]

    steps         the training steps of cpu.py, one figure each; the bar applies to the geometric mean of their ratios
    guards_200    a call of a traced step with 200 parameters
    contractions  the families of cpu.py; figures of their layers have names like `conv_forward/8x64x56x64x3x1x1`
    bits          the share of workloads (digits and the steps) whose losses and states after 20 steps are
                  bit-identical in both checkouts; standard error names those that differ

A ratio is the older checkout's milliseconds divided by this one's. Each side runs its own `benchmarks/contractions.py`
and `benchmarks/workloads/ours.py` in processes whose working directory is its root. Each side keeps compiled kernels in
its own folder, which is empty at first. Both sides run this checkout's version of scripts that an older checkout may
lack (`contraction.py`, `guarded.py`, `digest.py`).
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
"""The bar of a single step or layer, whose ratio varies more than the mean of many."""

WAYS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in STEPS},
    **{f"{name}_bfloat16": (name, "--bfloat16") for name in ("resnet50", "lsgan")},
    **{f"{name}_fast": (name, "--numerics=fast") for name in HEADLINES},
}
"""By step, the command-line arguments that select it in a script."""


@dataclass(frozen=True)
class Checkout:
    """A checkout of the project, and the folder where its processes keep compiled kernels."""

    root: Path
    cache: Path

    def environment(self) -> dict[str, str]:
        """Variables for its processes, which import the package, tests and workloads only from this checkout."""
        folders = (self.root, self.root / "benchmarks", self.root / WORKLOADS)
        path = os.pathsep.join(map(str, folders))
        return {**os.environ, "PYTHONPATH": path, "TRAINER_CACHE_DIR": str(self.cache)}

    def own(self, script: str, *words: str) -> Companion:
        """Returns a process that runs the checkout's own version of a workload script."""
        return self._companion(self.root / WORKLOADS / script, *words)

    def lent(self, script: str, *words: str) -> Companion:
        """Returns a process that runs the version of the script in the checkout that contains this file."""
        return self._companion(ROOT / WORKLOADS / script, *words)

    def output(self, *command: str) -> str:
        """Returns the output of a Python command.

        Raises:
            subprocess.CalledProcessError: the command failed.
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
    """Returns a figure that compares two processes of this interpreter."""
    return Figure(name, ours, lambda python: peer(), bar, needs_peer_python=False)


def steps(new: Checkout, old: Checkout) -> Family:
    """Training steps, all with the same number of threads."""

    def side(checkout: Checkout, workload: str, *words: str) -> Companion:
        fixed = (f"--steps={STEPS[workload]}", f"--threads={available_threads()}")
        return checkout.own("ours.py", workload, *fixed, *words)

    figures = (compared(name, ALONE_NO_SLOWER, side(new, *words), side(old, *words)) for name, words in WAYS.items())
    return Family("steps", tuple(figures), NO_SLOWER)


def guards(new: Checkout, old: Checkout) -> Figure:
    """The call of a step with 200 parameters, on one thread because three quarters of it are Python."""
    ours, peer = (checkout.lent("guarded.py", "--threads=1") for checkout in (new, old))
    return compared("guards_200", GUARDS_NO_SLOWER, ours, peer)


def layers(new: Checkout, old: Checkout) -> Family:
    """Contractions, one process per side. Those compared with NumPy are left out: they have the kernels of `matmul`."""
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
    """Returns the figures of a family without nested families."""
    return [part for part in family.figures if isinstance(part, Figure)]


def bits(new: Checkout, old: Checkout) -> Figure:
    """Whether training computes the same numbers. This takes minutes, so `--rounds` does not repeat it."""

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
    """Returns the share of equal digests; prints the others to standard error."""
    different = [name for name in ours if not ours[name] or ours[name] != peer.get(name)]
    for name in different:
        print(f"bits: {name}: {ours[name]}, the older checkout: {peer.get(name)}", file=sys.stderr)
    return 1 - len(different) / len(ours)


def check(checkout: Checkout) -> None:
    """Rejects a folder whose processes would import the package from elsewhere.

    Raises:
        SystemExit: the folder is not a checkout.
    """
    if not (checkout.root / WORKLOADS / "ours.py").is_file():
        raise SystemExit(f"--checkout {checkout.root}: not a checkout of the project: no {WORKLOADS / 'ours.py'}")
    imported = Path(checkout.output("-c", "import trainer; print(trainer.__file__)")).resolve()
    if not imported.is_relative_to(checkout.root):
        raise SystemExit(f"--checkout {checkout.root}: its processes import {imported}")


def figures(new: Checkout, old: Checkout) -> Sequence[Figure | Family]:
    """Returns all figures."""
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
