"""Listed programs: training steps and inference of whole networks, and the steps of the recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.engine.golden.program import Program, Run, arrays_of, integers, on, stepped, traced, values
from tests.engine.networks.networks import RESNET_50, ResNet, lsgan_discriminator, lsgan_generator
from tests.engine.networks.training import Outcome, Pix2Pix, Residual
from trainer import engine
from trainer.configs import load
from trainer.engine import State, Tensor, nn
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.learner import LAMB, SGD, Adam, AdamW, Lion, Muon, Optimizer, Plan
from trainer.learner.programs import set_mode
from trainer.learner.task import parts_of
from trainer.metrics import Mean

PAIRS = replace(AVX512, bfloat16=True)
TILES = replace(PAIRS, int8=True, bfloat16_tiles=True, int8_tiles=True)

SMALL_RESNET = Residual((1, 1, 1, 1), 8, 33, 3, steps=2)
WIDE_RESNET = Residual((1, 1, 1, 1), 64, 32, 4, steps=1)
RESNET = Residual(RESNET_50, 64, 64, 2, steps=1)
SMALL_PIX2PIX = Pix2Pix(8, 4, 64, steps=2)
PIX2PIX = Pix2Pix(64, 8, 256, steps=1)


def trained(network: Residual | Pix2Pix, dtype: Any = np.float32, precision: str = "float32") -> Run:
    """The run of the training steps of a network of `tests.engine.networks.training`."""

    def run(device: Any) -> Iterable[np.ndarray]:
        with engine.autocast(precision):
            outcome: Outcome = network.run(device, dtype)
        return [outcome.losses, *outcome.states.values()]

    return run


def inference(blocks: tuple[int, ...], width: int, size: int, batch: int) -> Run:
    """The run of a ResNet's inference, with moving statistics."""

    def run(device: Any) -> list[np.ndarray]:
        with on(device):
            network = ResNet(blocks, width, 10).set_seed(0).eval()
            step = engine.trace(lambda images: network(images))
            return [step(values(batch, 3, size, size)).numpy()]

    return run


def minimized(
    network: Callable[[], nn.Module],
    optimizer: Callable[[nn.Module], Optimizer],
    arguments: tuple[np.ndarray, ...],
    loss_of: Callable[..., Tensor],
    precision: str = "float32",
) -> Run:
    """The run of steps that minimize `loss_of(network, *arguments)`."""

    def build() -> tuple[Callable[..., Tensor], dict[str, State]]:
        net = network().set_seed(0)
        updater, random = optimizer(net), nn.RandomState(1)

        def step(*inputs: Tensor) -> Tensor:
            with random.step(), engine.autocast(precision):
                loss = loss_of(net, *inputs)
                updater.minimize(loss)
                random.advance()
            return loss

        return step, {**net.named_states(), **{f"optimizer.{k}": v for k, v in updater.named_states().items()}}

    return stepped(build, *arguments)


def squared(net: nn.Module, x: Tensor) -> Tensor:
    y = net(x)
    return engine.mean(y * y)


def classified(net: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return nn.cross_entropy(net(x), labels, label_smoothing=0.1)


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(50, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 64), nn.GELU(),
        nn.Linear(64, 7),
    )  # fmt: skip


class Attention(nn.Module):
    """A transformer's block on embedded tokens: attention, normalization, and a layer for each token."""

    def __init__(self, tokens: int = 40, width: int = 32, heads: int = 4) -> None:
        self.heads, self.embedding = heads, nn.Embedding(tokens, width)
        self.before, self.after = nn.LayerNorm(width), nn.RMSNorm(width)
        self.qkv, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        batch, length, width = x.shape
        split = engine.reshape(self.qkv(self.before(x)), (batch, length, 3, self.heads, width // self.heads))
        query, key, value = engine.unstack(engine.permute_dims(split, (2, 0, 3, 1, 4)), axis=0)
        scores = engine.matmul(query, engine.matrix_transpose(key)) * (width // self.heads) ** -0.5
        mixed = engine.matmul(nn.functional.softmax(scores), value)
        x = x + self.joined(engine.reshape(engine.permute_dims(mixed, (0, 2, 1, 3)), x.shape))
        x = x + self.narrow(nn.functional.relu(self.wide(self.after(x))))
        return self.head(x)


def next_token(net: nn.Module, tokens: Tensor) -> Tensor:
    logits = net(tokens)[:, :-1]
    return nn.cross_entropy(engine.reshape(logits, (-1, logits.shape[-1])), engine.reshape(tokens[:, 1:], (-1,)))


def depthwise(stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 24, 1), nn.Conv2d(24, 24, 3, stride, 1, groups=24, bias=False), nn.BatchNorm2d(24), nn.SiLU(),
        nn.Conv2d(24, 24, 5, 1, 2, groups=24), nn.Conv2d(24, 4, 1),
    )  # fmt: skip


def grouped() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(8, 32, 3, 1, 1), nn.GroupNorm(4, 32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1, groups=4),
        nn.InstanceNorm2d(64), nn.LeakyReLU(0.1), nn.Conv2d(64, 16, 3, 1, 2, 2, groups=8), nn.AdaptiveAvgPool2d(2),
    )  # fmt: skip


def few_outputs() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 3, 3, padding=1), nn.Tanh(),
        nn.Conv2d(3, 1, 7, padding=3),
    )  # fmt: skip


def plain() -> nn.Module:
    """Convolutions of which the class "fast" computes most by Winograd's algorithm, in every direction."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
        nn.Conv2d(48, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 16, (1, 5)), nn.Softplus(),
    )  # fmt: skip


def decoder() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(12, 24, 4, 2, 1), nn.BatchNorm2d(24), nn.ReLU(), nn.Upsample(scale_factor=2),
        nn.Conv2d(24, 12, 3, padding=1), nn.PixelShuffle(2), nn.ConvTranspose2d(3, 3, 5, 1, 2), nn.Sigmoid(),
    )  # fmt: skip


def least_squares(precision: str = "float32") -> Run:
    """The run of a step of LSGAN: both networks are updated."""

    def build() -> tuple[Callable[..., Any], dict[str, State]]:
        generator = lsgan_generator(4, 32).set_seed(0, "generator")
        discriminator = lsgan_discriminator(4).set_seed(0, "discriminator")
        first, second = Adam(generator, 2e-4, betas=(0.5, 0.999)), Adam(discriminator, 2e-4, betas=(0.5, 0.999))

        def step(noise: Tensor, photos: Tensor) -> tuple[Tensor, Tensor]:
            with engine.autocast(precision):
                made = generator(noise)
                judged = nn.mse_loss(discriminator(photos), engine.ones((2, 1)))
                judged = judged + engine.mean(discriminator(engine.stop_gradient(made)) ** 2)
                second.minimize(judged)
                wanted = engine.mean((discriminator(made) - 1) ** 2)
                first.minimize(wanted)
            return judged, wanted

        parts = {"generator": generator, "discriminator": discriminator, "first": first, "second": second}
        return step, {f"{name}.{k}": v for name, part in parts.items() for k, v in part.named_states().items()}

    return stepped(build, values(2, 32), values(2, 3, 112, 112, seed=1), calls=1)


def recipe(name: str, *overrides: str) -> Run:
    """The run of a recipe's training step on its first batch."""

    def run(device: Any) -> list[np.ndarray]:
        with on(device):
            loaded = load(name, ["data.workers=0", *overrides])
            task = getattr(loaded.task.import_module(), loaded.task.class_name)(loaded.config, loaded.options)
            batch = task.data().train.batch(0, 0)
            task.plan = Plan(1, 10)
            task.build()
            set_mode(task, is_training=True)
            random = nn.RandomState(0)

            def step(inputs: dict[str, Tensor]) -> list[Tensor]:
                with random.step():
                    returned = task.train_step(inputs)
                    random.advance()
                return [each.value for each in returned.values() if isinstance(each, Mean)]

            found = engine.trace(step)({key: np.asarray(array) for key, array in batch.items()})
            parts = parts_of(task)
            states = [part.named_states() for part in (*parts.modules.values(), *parts.optimizers.values())]
            return arrays_of([found, states])

    return run


IMAGES, PIXELS = values(2, 3, 12, 20), values(2, 8, 14, 18)
ROWS, TOKENS = values(24, 50), integers(40, 3, 24)
LABELS = integers(7, 24)

PROGRAMS = [
    Program("ResNet-50 training", trained(RESNET), is_run=False),
    Program("ResNet-50 inference of 1", inference(RESNET_50, 64, 96, 1), is_run=False),
    Program("ResNet-50 inference of 8", inference(RESNET_50, 64, 64, 8), is_run=False),
    Program("ResNet-50 inference of 8, fast", inference(RESNET_50, 64, 64, 8), numerics="fast", is_run=False),
    Program("wide ResNet training", trained(WIDE_RESNET)),
    Program("wide ResNet training, fast", trained(replace(WIDE_RESNET, size=64)), numerics="fast", is_run=False),
    Program("wide ResNet training, tiles", trained(WIDE_RESNET, precision="bfloat16"), bfloat16="tiles", machine=TILES,
            is_run=False),
    Program("small ResNet training", trained(SMALL_RESNET)),
    Program("small ResNet training, narrow", trained(SMALL_RESNET), machine=NARROW),
    Program("small ResNet training, fast", trained(SMALL_RESNET), numerics="fast"),
    Program("small ResNet training, float64", trained(SMALL_RESNET, np.float64)),
    Program("small ResNet training, pairs", trained(SMALL_RESNET, precision="bfloat16"), machine=PAIRS),
    Program("small ResNet training, pairs without them", trained(SMALL_RESNET, precision="bfloat16"), machine=NARROW),
    Program("small ResNet training, tiles", trained(SMALL_RESNET, precision="bfloat16"), bfloat16="tiles",
            machine=TILES, is_run=False),
    Program("small ResNet training, float16", trained(SMALL_RESNET, precision="float16")),
    Program("small ResNet inference", inference((1, 1, 1, 1), 8, 33, 2)),
    Program("pix2pix training", trained(PIX2PIX), is_run=False),
    Program("small pix2pix training", trained(SMALL_PIX2PIX)),
    Program("small pix2pix training, narrow", trained(SMALL_PIX2PIX), machine=NARROW, is_run=False),
    Program("small pix2pix training, fast", trained(SMALL_PIX2PIX), numerics="fast"),
    Program("small pix2pix training, pairs", trained(SMALL_PIX2PIX, precision="bfloat16"), machine=PAIRS),
    Program("LSGAN training", least_squares()),
    Program("LSGAN training, tiles", least_squares("bfloat16"), bfloat16="tiles", machine=TILES, is_run=False),
    Program("digits", recipe("digits", "data.batch_size=16")),
    Program("clothes", recipe("clothes", "data.batch_size=4", "options.width=16"), numerics="fast", is_run=False),
    Program("detection", recipe("detection", "data.batch_size=2", "options.width=8", "options.pyramid_channels=16"),
            is_run=False),
    Program("segmentation", recipe("segmentation", "data.batch_size=1", "options.widths=[16, 32]"), numerics="fast",
            is_run=False),
    Program("lsgan", recipe("lsgan", "data.batch_size=4", "options.filters=8"), is_run=False),
    Program("perceptron, Adam", minimized(perceptron, lambda net: Adam(net, 1e-2), (ROWS, LABELS), classified)),
    Program("perceptron, AdamW", minimized(
        perceptron, lambda net: AdamW(net, 1e-2, gradient_clip_norm=0.5), (ROWS, LABELS), classified, "bfloat16"),
        machine=PAIRS),
    Program("perceptron, SGD", minimized(
        perceptron, lambda net: SGD(net, 0.1, momentum=0.9, nesterov=True, gradient_clip_norm=1.0, weight_decay=1e-3),
        (ROWS, LABELS), classified)),
    Program("perceptron, Muon", minimized(perceptron, lambda net: Muon(net, 1e-2), (ROWS, LABELS), classified)),
    Program("perceptron, LAMB", minimized(perceptron, lambda net: LAMB(net, 1e-2), (ROWS, LABELS), classified)),
    Program("attention", minimized(Attention, lambda net: Lion(net, 1e-3), (TOKENS,), next_token)),
    Program("attention, pairs", minimized(Attention, lambda net: Adam(net, 1e-3), (TOKENS,), next_token, "bfloat16"),
            machine=PAIRS),
    Program("depthwise", minimized(depthwise, lambda net: SGD(net, 0.1), (IMAGES,), squared)),
    Program("depthwise with strides, narrow", minimized(lambda: depthwise(2), lambda net: SGD(net, 0.1), (IMAGES,),
                                                        squared), machine=NARROW),
    Program("grouped", minimized(grouped, lambda net: SGD(net, 0.1), (PIXELS,), squared)),
    Program("few outputs", minimized(few_outputs, lambda net: SGD(net, 0.1), (IMAGES,), squared)),
    Program("plain convolutions, fast", minimized(plain, lambda net: SGD(net, 0.1), (values(4, 3, 15, 17),), squared),
            numerics="fast"),
    Program("decoder", minimized(decoder, lambda net: Adam(net, 1e-3), (values(2, 12, 5, 7),), squared)),
    Program("8-bit products", traced(lambda a, b: [engine.matmul(a, b), engine.matmul(a[:, :3], b[:3]) + 1],
                                     integers(9, 40, 30), integers(9, 30, 20, seed=1))),
]  # fmt: skip
