"""Writes the state dictionary, outputs and gradients of a torchvision or timm backbone with random weights in float64.

python torch_backbones.py FOLDER LIBRARY NAME CLASSES

The files are FOLDER/weights.pth, by `torch.save`, and FOLDER/values.npz: `images`, `factors` of the logits in the loss,
and for each mode, train and eval, `MODE logits`, `MODE gradient NAME`, and `MODE buffer NAME` after the step.
"""

import sys
from pathlib import Path

import numpy as np
import torch

SIDE, ROWS = 64, 2


def made(library: str, name: str, classes: int) -> torch.nn.Module:
    """Returns the network without dropout and stochastic depth: no other library has the same random numbers.

    It replaces Hardsigmoid, because the gradient of PyTorch's own has the factor 1/6 in float32.
    """
    if library == "timm":
        import timm

        return timm.create_model(name, num_classes=classes)
    import torchvision

    network = getattr(torchvision.models, name)(num_classes=classes)
    for module in network.modules():
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0.0
        elif isinstance(module, torch.nn.Hardsigmoid):
            module.forward = lambda x: torch.nn.functional.relu6(x + 3) / 6
    return network


def randomize(network: torch.nn.Module) -> None:
    """Sets parameters and buffers to random numbers: initial values such as 0, 1 and 1e-6 would hide differences."""
    for name, value in network.state_dict().items():
        if not value.is_floating_point():
            continue
        if name.endswith(("running_var", "layer_scale")) or (value.ndim == 1 and name.endswith("weight")):
            value.uniform_(0.5, 1.5)
        else:
            value.normal_(std=max(1, value[0].numel()) ** -0.5 if value.ndim > 1 else 0.1)


folder, library, name, classes = Path(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
network = made(library, name, classes)
randomize(network)
torch.save(network.state_dict(), folder / "weights.pth")
images, factors = torch.randn(ROWS, 3, SIDE, SIDE), torch.randn(ROWS, classes)
values = {"images": images, "factors": factors}
for mode in ("eval", "train"):  # evaluation first: training changes the running statistics
    network.train(mode == "train").zero_grad()
    logits = network(images)
    (logits * factors).sum().backward()
    values[f"{mode} logits"] = logits.detach()
    values.update({f"{mode} gradient {key}": one.grad.clone() for key, one in network.named_parameters()})
    values.update({f"{mode} buffer {key}": one.clone() for key, one in network.named_buffers()})
np.savez(folder / "values.npz", **{key: value.numpy() for key, value in values.items()})
