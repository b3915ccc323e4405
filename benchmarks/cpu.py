"""What the CPU engine must show: contractions, training steps, memory, waiting and element-wise chains relative to
PyTorch in the same run, and tuning compared with none.

python benchmarks/cpu.py [conv_forward matmul resnet50 …] --peer-python PATH [--json] [--rounds N]

The peer's interpreter needs torch 2.13 and its threads are as many as ours. Of PyTorch the best counts: contiguous or
channels-last, compiled (that needs a C++ compiler) or not, optimizers fused. A figure of one layer has a name like
`conv_forward/8x64x56x64x3x1x1`. Standard error says how near the processor's peak a step comes, and where the rest
of its time goes. Figures of `tuning.py` for ResNet-50 and pix2pix are measured when they are named.
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
