"""Initial weights of generative networks as in DCGAN (Radford, Metz and Chintala 2016) and pix2pix."""

from __future__ import annotations

from trainer.engine import nn
from trainer.engine.nn import initializers
from trainer.engine.nn.parameter import declare

DEVIATION = 0.02


def with_normal_weights(network: nn.Module) -> nn.Module:
    """Initializes layer weights from N(0, 0.02), norm scales from N(1, 0.02), and biases with 0.

    Call it before any value of the network is read.
    """
    of_layers, of_norms = (initializers.normal(mean, DEVIATION) for mean in (0.0, 1.0))
    for module in network.modules():
        for name, shape in module.named_shapes().items():
            if name == "weight":
                module.weight = declare(shape, of_layers if len(shape) > 1 else of_norms)
            elif name == "bias":
                module.bias = declare(shape, initializers.zeros)
    return network
