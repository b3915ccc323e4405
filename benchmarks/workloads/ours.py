"""Times training steps on our engine: answers each line of standard input with the milliseconds of one step (median of
several), or another measure of it.

Usage: ours.py WORKLOAD [--measure NAME] [--threads N] [--steps N] [--bfloat16] [--numerics exact|fast] [--batch N]
               [--device cuda]

Before the first answer, the script prints the first step's time and a breakdown of a step's time to standard error.
`--measure first_step`, `compiled` and `second_signature` give one answer without waiting for a line.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from report import describe
from timing import step_ms

from tests.engine.networks.networks import ResNet, UNet, lsgan_discriminator, lsgan_generator, patch_discriminator
from trainer import engine
from trainer.engine import Tensor, nn, targets
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cuda.device import CudaDevice
from trainer.learner.optimizers.adam import Adam
from trainer.learner.optimizers.sgd import SGD
from trainer.recipes.parts.resnet import ResNet as BasicResNet


@dataclass(frozen=True)
class Workload:
    """A traced step, its arguments, and the precision of its products."""

    traced: Any
    arguments: tuple[Any, ...]
    precision: str = "float32"

    def __call__(self) -> float:
        """Runs a step and returns its loss."""
        return float(self.submit().item())

    def submit(self) -> Tensor:
        """Runs a step and returns its loss, which an asynchronous device may not have computed yet."""
        with engine.autocast(self.precision):
            return self.traced(*self.arguments)


def conv_bn_relu_conv() -> Workload:
    """Convolution, batch norm, ReLU, convolution on 8x64x56x56, mean square, SGD with momentum."""
    network = nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
    )
    optimizer = SGD(network, 1e-3, momentum=0.9)
    x = np.random.default_rng(0).standard_normal((8, 64, 56, 56), dtype=np.float32)
    images = engine.asarray(x)

    def step(image: Tensor) -> Tensor:
        y = network(image)
        loss = engine.mean(y * y)
        optimizer.minimize(loss)
        return loss

    return Workload(engine.trace(step), (images,))


def mlp() -> Workload:
    """784-512-512-10 on a batch of 128, cross entropy, Adam."""
    network = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = Adam(network)
    random = np.random.default_rng(0)
    x = random.standard_normal((128, 784), dtype=np.float32)
    y = random.integers(0, 10, 128)

    def step(image: Tensor, label: Tensor) -> Tensor:
        loss = nn.cross_entropy(network(image), label)
        optimizer.minimize(loss)
        return loss

    return Workload(engine.trace(step), (x, y))


def resnet50(batch: int = 8) -> Workload:
    """ResNet-50 on `batch` x 3x224x224, 1,000 classes, SGD with momentum and weight decay."""
    network = ResNet()
    optimizer = SGD(network, 0.1, momentum=0.9, weight_decay=1e-4)
    random = np.random.default_rng(0)
    x, y = random.standard_normal((batch, 3, 224, 224), dtype=np.float32), random.integers(0, 1000, batch)

    def step(image: Tensor, label: Tensor) -> Tensor:
        loss = nn.cross_entropy(network(image), label)
        optimizer.minimize(loss)
        return loss

    return Workload(engine.trace(step), (x, y))


def inference(batch: int) -> Workload:
    """ResNet-50 on `batch` x 3x224x224 in evaluation mode."""
    network = ResNet().eval()
    x = np.random.default_rng(0).standard_normal((batch, 3, 224, 224), dtype=np.float32)
    return Workload(engine.trace(lambda image: engine.max(network(image))), (x,))


def resnet50_inference_1() -> Workload:
    return inference(1)


def resnet50_inference_8() -> Workload:
    return inference(8)


def resnet18() -> Workload:
    """ResNet-18 on 8x3x224x224, 1,000 classes, SGD with momentum."""
    network = BasicResNet((2, 2, 2, 2))
    optimizer = SGD(network, 0.1, momentum=0.9)

    def step(image: Tensor, label: Tensor) -> Tensor:
        loss = nn.cross_entropy(network(image), label)
        optimizer.minimize(loss)
        return loss

    random = np.random.default_rng(0)
    arguments = random.standard_normal((8, 3, 224, 224), dtype=np.float32), random.integers(0, 1000, 8)
    return Workload(engine.trace(step), arguments)


def second_signature(workload: Workload) -> float:
    """Returns the time of the first step with a batch twice as large, as a fraction of the very first step's time."""
    seconds = []
    for copies in (1, 2):
        arguments = tuple(np.concatenate([argument] * copies) for argument in workload.arguments)
        began = time.perf_counter()
        replace(workload, arguments=arguments)()
        seconds.append(time.perf_counter() - began)
    return seconds[1] / seconds[0]


def pix2pix() -> Workload:
    """pix2pix on one pair of 256x256: U-Net of depth 8 and PatchGAN of 64 filters, an Adam for each."""
    generator, discriminator = UNet(), patch_discriminator()
    first, second = (Adam(network, 2e-4, betas=(0.5, 0.999)) for network in (generator, discriminator))
    a, b = np.random.default_rng(0).standard_normal((2, 1, 3, 256, 256), dtype=np.float32)

    def judged(source: Tensor, picture: Tensor, is_real: bool) -> Tensor:
        logits = discriminator(engine.concat([source, picture], axis=1))
        return nn.binary_cross_entropy_with_logits(logits, engine.full_like(logits, float(is_real)))

    def step(source: Tensor, target: Tensor) -> Tensor:
        made = generator(source)
        second.minimize((judged(source, engine.stop_gradient(made), False) + judged(source, target, True)) * 0.5)
        loss = judged(source, made, True) + 100 * nn.l1_loss(made, target)
        first.minimize(loss)
        return loss

    return Workload(engine.trace(step), (a, b))


def lsgan(batch: int = 16) -> Workload:
    """LSGAN on `batch` x 3x112x112 (Mao et al. 2017), noise of 1,024, an Adam for each network."""
    generator, discriminator = lsgan_generator(), lsgan_discriminator()
    first, second = (Adam(network, 2e-4, betas=(0.5, 0.999)) for network in (generator, discriminator))
    random = np.random.default_rng(0)
    x, z = (random.standard_normal(shape, dtype=np.float32) for shape in ((batch, 3, 112, 112), (batch, 1024)))

    def far(judgement: Tensor, goal: float) -> Tensor:
        return 0.5 * engine.mean((judgement - goal) * (judgement - goal))

    def step(real: Tensor, noise: Tensor) -> Tensor:
        made = generator(noise)
        second.minimize(far(discriminator(real), 1.0) + far(discriminator(engine.stop_gradient(made)), 0.0))
        loss = far(discriminator(made), 1.0)
        first.minimize(loss)
        return loss

    return Workload(engine.trace(step), (x, z))


STEPS = (conv_bn_relu_conv, mlp, resnet50, resnet50_inference_1, resnet50_inference_8, resnet18, pix2pix, lsgan)
WORKLOADS = {function.__name__: function for function in STEPS}


def submitted_ms(run: Workload, steps: int) -> float:
    """Milliseconds of a step, averaged over several. Only the last is read, so an asynchronous device can lag."""
    start = time.perf_counter()
    for _ in range(steps - 1):
        run.submit()
    run()
    return (time.perf_counter() - start) / steps * 1e3


def python_share(run: Callable[[], object], steps: int) -> float:
    """Percentage of a step's time that is spent outside the compiled program."""
    whole = step_ms(run, steps)
    pool = targets.current().pool
    launch, pool.run = pool.run, lambda *arguments, **options: None
    try:
        return 100 * step_ms(run, steps) / whole
    finally:
        pool.run = launch


def stamped(run: Callable[[], object], steps: int) -> float:
    """Ratio of a step's time with timestamped launches to that without; each `step` event has two timestamped steps."""
    walk = Program.walk
    times: dict[bool, list[float]] = {False: [], True: []}

    def walking(is_stamped: bool) -> Callable[..., object]:
        return lambda program, stamped, together: walk(program, stamped=is_stamped, together=together)

    try:
        for _ in range(steps):
            for is_stamped, taken in times.items():
                setattr(Program, "walk", walking(is_stamped))  # noqa: B010  (which mypy asks for)
                taken.append(step_ms(run, 1))
    finally:
        setattr(Program, "walk", walk)  # noqa: B010
    return statistics.median(times[True]) / statistics.median(times[False])


def kept_beside_busy(run: Callable[[], object], steps: int) -> float:
    """Fraction of its speed that a step keeps while another process uses a whole core."""
    alone = step_ms(run, steps)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        return alone / step_ms(run, 4 * steps)
    finally:
        busy.kill()
        busy.wait()


def peak_memory(run: Callable[[], object], steps: int) -> float:
    """Peak memory of the process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


MEASURES: dict[str, Callable[[Workload, int], float]] = {
    function.__name__: function
    for function in (step_ms, submitted_ms, python_share, stamped, kept_beside_busy, peak_memory)
}
ONCE = ("first_step", "compiled", "second_signature")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--measure", choices=(*MEASURES, *ONCE), default="step_ms")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--numerics", choices=("exact", "fast"), default="exact")
    parser.add_argument("--batch", type=int, default=None, help="batch size of resnet50 and lsgan")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    is_cpu = arguments.device == "cpu"
    if is_cpu:
        device: targets.Device = CpuDevice(threads=arguments.threads, numerics=arguments.numerics)
    else:
        device = CudaDevice(int(arguments.device.partition(":")[2] or 0), numerics=arguments.numerics)
    engine.set_default_device(device)
    began = time.perf_counter()
    make: Callable[..., Workload] = WORKLOADS[arguments.workload]
    workload = make() if arguments.batch is None else make(arguments.batch)
    if not is_cpu:  # `torch_peer.py` also keeps its inputs on the device
        moved = tuple(engine.asarray(each).to_device(device) for each in workload.arguments)
        workload = replace(workload, arguments=moved)
    if arguments.bfloat16:
        workload = replace(workload, precision="bfloat16")
    if arguments.measure == "second_signature":
        print(second_signature(workload), flush=True)
        return
    made = time.perf_counter()
    workload()
    first_step = time.perf_counter() - made
    program = workload.traced.programs[0]
    if arguments.measure in ONCE:
        print(first_step if arguments.measure == "first_step" else program.compilation.compiled, flush=True)
        return
    for _ in range(3):
        workload()
    print(
        f"{arguments.workload}: made in {made - began:.1f} s, first step {first_step:.1f} s",
        describe(workload) if is_cpu else engine.memory_report(workload.traced),
        sep="\n",
        file=sys.stderr,
    )
    for _ in sys.stdin:
        print(MEASURES[arguments.measure](workload, arguments.steps), flush=True)


if __name__ == "__main__":
    main()
