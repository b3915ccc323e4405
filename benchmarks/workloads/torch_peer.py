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
from torch_networks import ResNet, UNet, patch_discriminator


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


def resnet50(channels_last: bool) -> Callable[[], object]:
    """ResNet-50 on 8 x 3 x 224 x 224, 1,000 classes, fused SGD with momentum and weight decay."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    network = ResNet().to(memory_format=layout)
    x, y = torch.randn(8, 3, 224, 224).contiguous(memory_format=layout), torch.randint(0, 1000, (8,))
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def pix2pix(channels_last: bool) -> Callable[[], object]:
    """pix2pix on one pair of 256 x 256: U-Net of depth 8 and PatchGAN of 64 filters, a fused Adam for each."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    generator, discriminator = UNet().to(memory_format=layout), patch_discriminator().to(memory_format=layout)
    first, second = (
        torch.optim.Adam(network.parameters(), 2e-4, betas=(0.5, 0.999), fused=True)
        for network in (generator, discriminator)
    )
    a, b = (torch.randn(1, 3, 256, 256).contiguous(memory_format=layout) for _ in range(2))

    def judged(picture: torch.Tensor, is_real: bool) -> torch.Tensor:
        logits = discriminator(torch.cat([a, picture], 1))
        return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(is_real)))

    def step() -> float:
        made = generator(a)
        second.zero_grad(set_to_none=True)
        ((judged(made.detach(), False) + judged(b, True)) * 0.5).backward()
        second.step()
        for parameter in discriminator.parameters():
            parameter.requires_grad_(False)
        first.zero_grad(set_to_none=True)
        loss = judged(made, True) + 100 * F.l1_loss(made, b)
        loss.backward()
        first.step()
        for parameter in discriminator.parameters():
            parameter.requires_grad_(True)
        return loss.item()

    return step


WORKLOADS = {function.__name__: function for function in (conv_bn_relu_conv, mlp, resnet50, pix2pix)}


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
