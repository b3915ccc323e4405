"""Whole training steps compared with PyTorch: time, memory, and time until the first step ends."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness import POLICIES, Companion, Figure, checkout_environment

from trainer.engine.targets.cpu.topology import available_threads

FOLDER = Path(__file__).parent / "workloads"
STEPS = {"conv_bn_relu_conv": 5, "mlp": 50, "resnet50": 1, "pix2pix": 1, "lsgan": 1}
OTHERS = {"resnet50_inference_1": 10, "resnet50_inference_8": 2, "resnet18": 1}
"""Workloads that older checkouts lack."""

REPEATS = STEPS | OTHERS
VARIANTS = ("", "--channels-last", "--compiled", "--channels-last --compiled")
"""PyTorch's ways to run a step, each with both OpenMP wait policies; the fastest is the peer."""

TRIALS = 3
HEADLINES = ("resnet50", "pix2pix", "lsgan", "mlp")
HEADLINE, FAST, FASTER = 1.5, 1.8, 1.3
"""Minimum speeds relative to PyTorch: of headline steps in float32 and bfloat16, of headline steps with
`numerics: {class: fast}`, and of a chain of layers.
"""


def command(workload: str, *options: str) -> list[str]:
    """Returns the command of our side of a workload."""
    return [sys.executable, str(FOLDER / "ours.py"), workload, *fixed(workload), *options]


def fixed(workload: str) -> tuple[str, ...]:
    """Returns the options of both sides: the number of steps per answer, and the number of threads."""
    return f"--steps={REPEATS[workload]}", f"--threads={available_threads()}"


def ours(workload: str, measure: str = "step_ms", *options: str) -> Callable[[], float]:
    """Returns a function that measures a step on our engine, by default in milliseconds."""
    return Companion(*command(workload, "--measure", measure, *options))


class FastestWay:
    """A peer that can run in several ways, each with both OpenMP wait policies. The first call finds the fastest way.

    Args:
        name: name of the workload on standard error.
        ways: arguments after the interpreter, by way.
        refinement: arguments that are added to the fastest way, to try one more.
    """

    def __init__(self, name: str, ways: Mapping[str, Sequence[str]], refinement: Sequence[str] = ()) -> None:
        self._name, self._ways, self._refinement = name, ways, refinement
        self._least, self._best = float("inf"), ""
        self._companion: Companion | None = None

    def __call__(self, python: str) -> float:
        if self._companion is None:
            for (way, words), policy in itertools.product(self._ways.items(), POLICIES):
                self._try(python, words, way, policy)
            if self._refinement and self._companion is not None:
                way, policy = self._best.split(", ")
                self._try(python, (*self._ways[way], *self._refinement), " ".join((way, *self._refinement)), policy)
        if self._companion is None:
            raise RuntimeError(f"PyTorch can't run {self._name}")
        return self._companion()

    def close(self) -> None:
        """Ends the process of the fastest way."""
        if self._companion is not None:
            self._companion.close()

    def _try(self, python: str, words: Sequence[str], way: str, policy: str) -> None:
        companion = Companion(python, *words, environment=checkout_environment(OMP_WAIT_POLICY=policy), rests=True)
        try:
            value = min(companion() for _ in range(TRIALS))
        except (RuntimeError, BrokenPipeError) as error:
            print(f"{self._name}: PyTorch {way}, {policy}: does not run: {error}", file=sys.stderr)
            return
        print(f"{self._name}: PyTorch {way}, {policy}: {value:.4g}", file=sys.stderr)
        worse: Companion | None = companion
        if value < self._least:
            worse, self._companion = self._companion, companion
            self._least, self._best = value, f"{way}, {policy}"
        if worse is not None:
            worse.close()


class TorchPeer(FastestWay):
    """A step in PyTorch, run in the fastest way."""

    def __init__(self, workload: str, *options: str) -> None:
        words = (str(FOLDER / "torch_peer.py"), workload, *fixed(workload))
        super().__init__(workload, {way or "contiguous": (*words, *way.split(), *options) for way in VARIANTS})


def first_step_seconds(cache: str) -> float:
    """Seconds from the first call of ResNet-50 to the end of its first step, with the kernels in folder `cache`."""
    return _once("first_step", cache)


def cold_seconds() -> float:
    """Seconds of the first step with an empty kernel cache."""
    with tempfile.TemporaryDirectory() as folder:
        return first_step_seconds(folder)


class SecondRun:
    """A second process after one that filled the cache; further calls start a third, a fourth, …"""

    def __init__(self, measure: str) -> None:
        self._measure = measure
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __call__(self) -> float:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory()
            _once(self._measure, self._folder.name)
        return _once(self._measure, self._folder.name)


def second_signature() -> float:
    """ResNet-18's first step with a doubled batch, relative to its very first step, with an empty kernel cache."""
    with tempfile.TemporaryDirectory() as folder:
        return _once("second_signature", folder, "resnet18")


def _once(measure: str, cache: str, workload: str = "resnet50") -> float:
    environment = checkout_environment(TRAINER_CACHE_DIR=cache)
    answer = subprocess.run(
        command(workload, "--measure", measure), env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(answer.stdout)


FIGURES = [
    *(Figure(name, ours(name), TorchPeer(name), HEADLINE) for name in HEADLINES),
    *(Figure(f"{name}_fast", ours(name, "step_ms", "--numerics=fast"), TorchPeer(name), FAST) for name in HEADLINES),
    *(
        Figure(f"{name}_bfloat16", ours(name, "step_ms", "--bfloat16"), TorchPeer(name, "--bfloat16"), HEADLINE)
        for name in ("resnet50", "lsgan")
    ),
    *(
        Figure(
            f"resnet50_inference_{batch}",
            ours(f"resnet50_inference_{batch}"),
            TorchPeer(f"resnet50_inference_{batch}"),
            bar,
        )
        for batch, bar in ((1, 2.0), (8, 1.35))
    ),
    Figure("second_signature", second_signature, bar=0.4, unit="of the first step", rounds=3),
    Figure("conv_bn_relu_conv", ours("conv_bn_relu_conv"), TorchPeer("conv_bn_relu_conv"), FASTER),
    Figure(
        "resnet50_memory",
        ours("resnet50", "peak_memory"),
        TorchPeer("resnet50", "--peak-memory"),
        bar=1 / 0.7,
        unit="MB",
        rounds=1,
        is_timing=False,
    ),
    Figure("resnet50_first_step_cold", cold_seconds, bar=10.0, unit="s", rounds=3),
    Figure("resnet50_first_step_warm", SecondRun("first_step"), bar=3.0, unit="s", rounds=3),
    Figure("second_run", SecondRun("compiled"), bar=0.5, unit="kernels compiled", rounds=1, is_timing=False),
    Figure("mlp_python_share", ours("mlp", "python_share"), bar=5.0, unit="%"),
    *(
        Figure(f"{name}_stamped", ours(name, "stamped"), bar=1.05, unit="times")
        for name in ("mlp", "conv_bn_relu_conv")
    ),
    Figure("mlp_kept_beside_busy", ours("mlp", "kept_beside_busy"), bar=0.5, better="higher", unit="of its speed"),
]
