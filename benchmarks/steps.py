"""Training steps beside PyTorch: the thinnest slice of a network, an MLP, ResNet-50 and pix2pix, and what a step costs
in Python.

python benchmarks/steps.py [conv_bn_relu_conv mlp resnet50 pix2pix …] [--json] [--peer-python PATH]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from harness import Companion, Figure, run_figures

FOLDER = Path(__file__).parent / "workloads"
STEPS = {"conv_bn_relu_conv": "5", "mlp": "50", "resnet50": "1", "pix2pix": "1"}


def ours(workload: str, measure: str = "step_ms") -> Callable[[], float]:
    """A measure of a step on our engine, its milliseconds by default."""
    return Companion(
        sys.executable, str(FOLDER / "ours.py"), workload, "--steps", STEPS[workload], "--measure", measure
    )


def torch_peer(workload: str, *options: str) -> Callable[[str], float]:
    """The milliseconds of the same step in PyTorch."""
    companions: dict[str, Companion] = {}

    def measure(python: str) -> float:
        command = (python, str(FOLDER / "torch_peer.py"), workload, "--steps", STEPS[workload], *options)
        return companions.setdefault(python, Companion(*command))()

    return measure


FIGURES = [
    Figure("conv_bn_relu_conv", ours("conv_bn_relu_conv"), torch_peer("conv_bn_relu_conv")),
    Figure(
        "conv_bn_relu_conv_channels_last",
        ours("conv_bn_relu_conv"),
        torch_peer("conv_bn_relu_conv", "--channels-last"),
    ),
    Figure("mlp", ours("mlp"), torch_peer("mlp")),
    Figure("resnet50", ours("resnet50"), torch_peer("resnet50")),
    Figure("resnet50_channels_last", ours("resnet50"), torch_peer("resnet50", "--channels-last")),
    Figure("pix2pix", ours("pix2pix"), torch_peer("pix2pix")),
    Figure("pix2pix_channels_last", ours("pix2pix"), torch_peer("pix2pix", "--channels-last")),
    Figure("mlp_python_share", ours("mlp", "python_share"), bar=5.0, unit="%"),
    Figure("mlp_kept_beside_busy", ours("mlp", "kept_beside_busy"), bar=0.5, better="higher", unit="of its speed"),
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
