"""The same training steps in PyTorch: answers each line of standard input with the milliseconds of one step.

Usage: torch_peer.py WORKLOAD [--threads N] [--steps N] [--channels-last]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


def conv_bn_relu_conv(channels_last: bool) -> Callable[[], object]:
    """Convolution, batch norm, ReLU, convolution on 8 x 64 x 56 x 56, mean square, SGD with momentum."""
    network = nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(True),
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
    )
    x = torch.randn(8, 64, 56, 56)
    if channels_last:
        network, x = network.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = network(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def mlp(channels_last: bool) -> Callable[[], object]:
    """784-512-512-10 on a batch of 128, cross entropy, fused Adam."""
    network = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    x, y = torch.randn(128, 784), torch.randint(0, 10, (128,))

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


WORKLOADS = {function.__name__: function for function in (conv_bn_relu_conv, mlp)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--channels-last", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    run = WORKLOADS[arguments.workload](arguments.channels_last)
    for _ in range(3):
        run()
    for _ in sys.stdin:
        times = []
        for _ in range(arguments.steps):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        print(statistics.median(times) * 1e3, flush=True)


if __name__ == "__main__":
    main()
