"""Writes torch_files/: small files as PyTorch writes them, and expected.npz with what is in them.

Run it by hand in an environment that has torch (made with 2.13.0); the tests only read the files.
"""

# mypy: ignore-errors
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).with_name("torch_files")
HERE.mkdir(exist_ok=True)
torch.manual_seed(3)

net = nn.Sequential(
    OrderedDict(conv1=nn.Conv2d(3, 4, 3), bn1=nn.BatchNorm2d(4), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(),
                fc=nn.Linear(4, 2))
)  # fmt: skip
image = torch.randn(8, 3, 7, 7)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    net(image).square().mean().backward()
    optimizer.step()
state = net.state_dict()
torch.save(state, HERE / "plain.pt")
torch.save(state, HERE / "legacy.pth", _use_new_zipfile_serialization=False)
torch.save(state, HERE / "protocol4.pt", pickle_protocol=4)
torch.save({f"module.{name}": value for name, value in state.items()}, HERE / "data_parallel.pt")
training = {
    "epoch": 3,
    "state_dict": state,
    "optimizer": optimizer.state_dict(),
    "best": 0.5,
    "args": {"lr": [0.1, None]},
}
torch.save(training, HERE / "training.pth")
torch.save(net, HERE / "module.pt")
torch.jit.script(net).save(HERE / "program.pt")

whole = torch.arange(24.0).reshape(4, 6)
numbers = [-2, 0, 1, 100]
dtypes = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8"]
tensors = {name: torch.tensor(numbers, dtype=getattr(torch, name)) for name in dtypes}
tensors |= {
    "uint8": torch.tensor([0, 255], dtype=torch.uint8),
    "bool": torch.tensor([True, False]),
    "transposed": whole.T,
    "part": whole[1:3, ::2],
    "channels_last": torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 3),
    "parameter": nn.Parameter(torch.tensor([1.0, -1.0])),
}
torch.save(tensors, HERE / "tensors.pt")
torch.save(tensors, HERE / "tensors_legacy.pt", _use_new_zipfile_serialization=False)

net.eval()
expected = {f"net/{name}": value.numpy() for name, value in state.items()}
expected |= {f"tensors/{name}": value.detach().float().numpy() for name, value in tensors.items()}
np.savez(HERE / "expected.npz", image=image.numpy(), output=net(image).detach().numpy(), **expected)
