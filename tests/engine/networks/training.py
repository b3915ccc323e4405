"""Training steps of whole networks, to be run on several devices and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.engine.networks.networks import Bottleneck, ResNet, UNet, patch_discriminator
from trainer import engine
from trainer.engine import Tensor, nn
from trainer.learner import SGD, Adam


@dataclass
class Outcome:
    """What a run left: the losses of each step, and all parameters, buffers and moments by name."""

    losses: np.ndarray
    states: dict[str, np.ndarray]


@dataclass(frozen=True)
class Residual:
    """ResNet on random pictures, cross entropy, SGD with momentum and weight decay.

    `branch_scale` is the initial scale of each block's last norm (Goyal et al. 2017 start it at 0): at 1 an untrained
    ResNet-50 makes a hundredth of float32's rounding within two steps, on the reference device as well.
    """

    blocks: tuple[int, ...]
    width: int
    size: int
    batch: int
    classes: int = 10
    learning_rate: float = 0.01
    branch_scale: float = 1.0
    steps: int = 5

    def run(self, device: Any, dtype: Any) -> Outcome:
        with engine.device(device):
            net = ResNet(self.blocks, self.width, self.classes).set_seed(0)
            for module in net.modules():
                if isinstance(module, Bottleneck):
                    module.bn3.weight.set_value(np.full(module.bn3.weight.shape, self.branch_scale))
            _in_dtype(net, dtype)
            optimizer = SGD(net, self.learning_rate, momentum=0.9, weight_decay=1e-4)

            def step(images: Tensor, labels: Tensor) -> Tensor:
                loss = nn.cross_entropy(net(images), labels)
                optimizer.minimize(loss)
                return loss

            traced, random = engine.trace(step), np.random.default_rng(0)
            losses = []
            for _ in range(self.steps):
                images = random.normal(size=(self.batch, 3, self.size, self.size)).astype(np.float32)
                labels = random.integers(0, self.classes, self.batch)
                losses.append(traced(images.astype(dtype), labels).item())
            return Outcome(np.array(losses), _states({"net": net, "optimizer": optimizer}))


@dataclass(frozen=True)
class Pix2Pix:
    """The conditional GAN: one traced step judges real and made pictures, updates the discriminator by Adam, judges
    the made pictures again with its new weights, and updates the generator by another Adam.
    """

    filters: int
    depth: int
    size: int
    batch: int = 1
    learning_rate: float = 2e-4
    steps: int = 5

    def run(self, device: Any, dtype: Any) -> Outcome:
        with engine.device(device):
            generator = UNet(self.filters, self.depth).set_seed(0, "generator")
            discriminator = patch_discriminator(self.filters).set_seed(0, "discriminator")
            for net in (generator, discriminator):
                _in_dtype(net, dtype)
            first, second = (Adam(net, self.learning_rate, betas=(0.5, 0.999)) for net in (generator, discriminator))

            def judged(source: Tensor, picture: Tensor, is_real: bool) -> Tensor:
                logits = discriminator(engine.concat([source, picture], axis=1))
                return nn.binary_cross_entropy_with_logits(logits, engine.full_like(logits, float(is_real)))

            def step(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
                made = generator(source)
                judgement = judged(source, engine.stop_gradient(made), False) + judged(source, target, True)
                second.minimize(judgement * 0.5)
                loss = judged(source, made, True) + 100 * nn.l1_loss(made, target)
                first.minimize(loss)
                return judgement, loss

            traced, random = engine.trace(step), np.random.default_rng(0)
            losses = []
            for _ in range(self.steps):
                pair = random.uniform(-1, 1, (2, self.batch, 3, self.size, self.size)).astype(np.float32)
                losses.append([loss.item() for loss in traced(*pair.astype(dtype))])
            parts = {"generator": generator, "discriminator": discriminator, "first": first, "second": second}
            return Outcome(np.array(losses), _states(parts))


def _in_dtype(net: nn.Module, dtype: Any) -> None:
    """Initial values are those of float32 in every dtype."""
    values = net.state_dict()
    net.astype({"float32": engine.float32, "float64": engine.float64}[np.dtype(dtype).name])
    net.load_state_dict(values)


def _states(parts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {
        f"{name}.{key}": state.numpy() for name, part in parts.items() for key, state in part.named_states().items()
    }
