"""PyTorch's functions under the names that the untuned networks use."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

functional = nn.functional
ReLU, LeakyReLU = functools.partial(nn.ReLU, inplace=True), functools.partial(nn.LeakyReLU, inplace=True)
concat, reshape, permute, roll, constant = torch.cat, torch.reshape, torch.permute, torch.roll, torch.as_tensor
cross_entropy, mse_loss, l1_loss = functional.cross_entropy, functional.mse_loss, functional.l1_loss
binary_cross_entropy_with_logits = functional.binary_cross_entropy_with_logits
weight_norm = nn.utils.weight_norm

OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda network: torch.optim.SGD(network.parameters(), 0.001, momentum=0.9, weight_decay=1e-4, fused=True),
    "adamw": lambda network: torch.optim.AdamW(network.parameters(), 1e-4, fused=True),
    "adam": lambda network: torch.optim.Adam(network.parameters(), 2e-4, betas=(0.5, 0.999), fused=True),
}


def detach(x: torch.Tensor) -> torch.Tensor:
    return x.detach()


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


class Trained:
    """Networks with one optimizer each, and the precision of their products: the first argument of `Network.step`."""

    def __init__(self, networks: list[nn.Module], optimizer: str, precision: str, compiled: bool) -> None:
        self.networks = networks
        self.optimizers = [OPTIMIZERS[optimizer](network) for network in networks]
        self.called = [torch.compile(network) if compiled else network for network in networks]
        self.is_mixed = precision == "bfloat16"
        self.dtype = torch.float64 if precision == "float64" else torch.float32

    def apply(self, x: Any, number: int = 0) -> Any:
        """Returns the outputs of a network in float32 or float64."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.is_mixed):
            outputs = self.called[number](x)
        return tuple(y.to(self.dtype) for y in outputs) if isinstance(outputs, tuple) else outputs.to(self.dtype)

    @contextlib.contextmanager
    def frozen(self, number: int) -> Iterator[None]:
        """Disables the gradients of a network's parameters."""
        self.networks[number].requires_grad_(False)
        yield
        self.networks[number].requires_grad_(True)

    def minimize(self, loss: torch.Tensor, number: int = 0) -> None:
        """Updates the parameters of one network only."""
        self.optimizers[number].zero_grad(set_to_none=True)
        loss.backward()
        self.optimizers[number].step()
