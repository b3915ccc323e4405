"""Figures of the CPU engine: contractions, training steps and memory relative to PyTorch in the same run, waiting
times, element-wise chains relative to a memory copy, and tuning relative to no tuning.

python benchmarks/cpu.py [conv_forward matmul resnet50 …] --peer-python PATH [--json] [--rounds N]

The peer's interpreter needs torch 2.13 and runs as many threads as ours. The fastest mode of PyTorch counts: contiguous
or channels-last, compiled (this needs a C++ compiler) or not, with fused optimizers. A figure of one layer has a name
like `conv_forward/8x64x56x64x3x1x1`. Standard error reports how close a step comes to the processor's peak, and where
the rest of its time goes. Figures of `tuning.py` for ResNet-50 and pix2pix are measured only when named.
"""

from __future__ import annotations

import sys

import chains
import contractions
import steps
import tuning
from harness import run_figures

FIGURES = [*contractions.FAMILIES, *steps.FIGURES, *chains.FIGURES, *tuning.wanted(sys.argv[1:])]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
