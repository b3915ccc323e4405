"""Times the same training steps in PyTorch: answers each line of standard input with the milliseconds of one step.

Usage: torch_peer.py WORKLOAD --threads N [--steps N] [--channels-last] [--compiled] [--bfloat16] [--peak-memory]
                     [--device cuda] [--batch N] [--tf32]

`--compiled` compiles the networks with torch.compile, which needs a C++ compiler. `--peak-memory` answers with the peak
memory of the process in megabytes. On a GPU, float32 products are exact by default; `--tf32` uses tensor cores.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch_networks import ResNet, UNet, lsgan_discriminator, lsgan_generator, patch_discriminator


@dataclass(frozen=True)
class Options:
    """Options of running a step in PyTorch."""

    channels_last: bool = False
    compiled: bool = False
    bfloat16: bool = False
    device: str = "cpu"

    def network(self, network: nn.Module) -> nn.Module:
        """Returns the network in the chosen layout, compiled if `compiled`."""
        network = network.to(self.device, memory_format=self.layout)
        return torch.compile(network) if self.compiled else network

    def images(self, *shape: int) -> torch.Tensor:
        """Returns random images in the chosen layout."""
        return torch.randn(*shape, device=self.device).contiguous(memory_format=self.layout)

    @property
    def layout(self) -> torch.memory_format:
        return torch.channels_last if self.channels_last else torch.contiguous_format

    @property
    def precision(self) -> torch.autocast:
        """A context in which contractions run in the chosen dtype."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.bfloat16)


def conv_bn_relu_conv(options: Options) -> Callable[[], torch.Tensor]:
    """Convolution, batch norm, ReLU, convolution on 8x64x56x56, mean square, SGD with momentum."""
    network = options.network(
        nn.Sequential(
            nn.Conv2d(64, 64, 3, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(True),
            nn.Conv2d(64, 64, 3, padding=1, bias=False),
        )
    )
    x = options.images(8, 64, 56, 56)
    optimizer = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9, fused=True)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with options.precision:
            loss = network(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def mlp(options: Options) -> Callable[[], torch.Tensor]:
    """784-512-512-10 on a batch of 128, cross entropy, fused Adam."""
    network = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    network = network.to(options.device)
    network = torch.compile(network) if options.compiled else network
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    x = torch.randn(128, 784, device=options.device)
    y = torch.randint(0, 10, (128,), device=options.device)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with options.precision:
            loss = F.cross_entropy(network(x).float(), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def resnet50(options: Options, batch: int = 8) -> Callable[[], torch.Tensor]:
    """ResNet-50 on `batch` x 3x224x224, 1,000 classes, fused SGD with momentum and weight decay."""
    network = options.network(ResNet())
    x, y = options.images(batch, 3, 224, 224), torch.randint(0, 1000, (batch,), device=options.device)
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=True)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with options.precision:
            loss = F.cross_entropy(network(x).float(), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def inference(options: Options, batch: int) -> Callable[[], torch.Tensor]:
    """ResNet-50 on `batch` x 3x224x224 in inference mode."""
    network, x = options.network(ResNet().eval()), options.images(batch, 3, 224, 224)

    @torch.inference_mode()
    def call() -> torch.Tensor:
        with options.precision:
            return network(x).max()

    return call


def resnet50_inference_1(options: Options) -> Callable[[], torch.Tensor]:
    return inference(options, 1)


def resnet50_inference_8(options: Options) -> Callable[[], torch.Tensor]:
    return inference(options, 8)


def pix2pix(options: Options) -> Callable[[], torch.Tensor]:
    """pix2pix on one pair of 256x256: U-Net of depth 8 and PatchGAN of 64 filters, a fused Adam for each."""
    generator, discriminator = options.network(UNet()), options.network(patch_discriminator())
    first, second = _adams(generator, discriminator)
    a, b = options.images(1, 3, 256, 256), options.images(1, 3, 256, 256)

    def judged(picture: torch.Tensor, is_real: bool) -> torch.Tensor:
        with options.precision:
            logits = discriminator(torch.cat([a, picture], 1)).float()
        return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(is_real)))

    def step() -> torch.Tensor:
        with options.precision:
            made = generator(a).float()
        second.zero_grad(set_to_none=True)
        ((judged(made.detach(), False) + judged(b, True)) * 0.5).backward()
        second.step()
        discriminator.requires_grad_(False)
        first.zero_grad(set_to_none=True)
        loss = judged(made, True) + 100 * F.l1_loss(made, b)
        loss.backward()
        first.step()
        discriminator.requires_grad_(True)
        return loss

    return step


def lsgan(options: Options, batch: int = 16) -> Callable[[], torch.Tensor]:
    """LSGAN on `batch` x 3x112x112, noise of 1,024, a fused Adam for each network."""
    generator, discriminator = options.network(lsgan_generator()), options.network(lsgan_discriminator())
    first, second = _adams(generator, discriminator)
    real, noise = options.images(batch, 3, 112, 112), torch.randn(batch, 1024, device=options.device)

    def far(pictures: torch.Tensor, goal: float) -> torch.Tensor:
        with options.precision:
            judgement = discriminator(pictures).float()
        return 0.5 * (judgement - goal).square().mean()

    def step() -> torch.Tensor:
        with options.precision:
            made = generator(noise).float()
        second.zero_grad(set_to_none=True)
        (far(real, 1.0) + far(made.detach(), 0.0)).backward()
        second.step()
        discriminator.requires_grad_(False)
        first.zero_grad(set_to_none=True)
        loss = far(made, 1.0)
        loss.backward()
        first.step()
        discriminator.requires_grad_(True)
        return loss

    return step


def _adams(*networks: nn.Module) -> list[torch.optim.Adam]:
    return [torch.optim.Adam(network.parameters(), 2e-4, betas=(0.5, 0.999), fused=True) for network in networks]


STEPS = (conv_bn_relu_conv, mlp, resnet50, resnet50_inference_1, resnet50_inference_8, pix2pix, lsgan)
WORKLOADS = {function.__name__: function for function in STEPS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--peak-memory", action="store_true")
    parser.add_argument("--batch", type=int, default=None, help="batch size of resnet50 and lsgan")
    parser.add_argument("--device", default="cpu")
    for name in ("channels_last", "compiled", "bfloat16", "tf32"):
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
    arguments = parser.parse_args()
    torch.set_flush_denormal(True)  # as our traced steps do; threads that start later inherit it
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.tf32
    options = Options(**{name: getattr(arguments, name) for name in Options.__dataclass_fields__})
    make: Callable[..., Callable[[], torch.Tensor]] = WORKLOADS[arguments.workload]
    run = make(options) if arguments.batch is None else make(options, arguments.batch)
    for _ in range(3):
        run().item()
    for _ in sys.stdin:
        if arguments.peak_memory:
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
            continue
        if arguments.device != "cpu":  # submits all steps, and waits only for the last
            start = time.perf_counter()
            for _ in range(arguments.steps - 1):
                run()
            run().item()
            print((time.perf_counter() - start) / arguments.steps * 1e3, flush=True)
            continue
        times = []
        for _ in range(arguments.steps):
            start = time.perf_counter()
            run().item()
            times.append(time.perf_counter() - start)
        print(statistics.median(times) * 1e3, flush=True)


if __name__ == "__main__":
    main()
