"""Writes torch_reference.json next to it: optimizers and schedules computed by PyTorch in float64.

Run it by hand in an environment that has torch (made with 2.13.0); the tests only read the file.
"""

# mypy: ignore-errors
import json
from pathlib import Path

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)


def numbers(tensor):
    return {
        "shape": list(tensor.shape),
        "values": [float(f"{value:.11g}") for value in tensor.detach().flatten().tolist()],
    }


start, steps = torch.randn(3, 2), torch.randn(6, 3, 2)


def trajectory(make, clip=None):
    parameter = nn.Parameter(start.clone())
    optimizer = make([parameter])
    for gradient in steps:
        parameter.grad = gradient.clone()
        if clip is not None:
            nn.utils.clip_grad_norm_([parameter], clip)
        optimizer.step()
    return numbers(parameter)


optimizers = {
    "sgd": trajectory(lambda p: torch.optim.SGD(p, 0.1)),
    "sgd_momentum": trajectory(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01)),
    "sgd_nesterov": trajectory(lambda p: torch.optim.SGD(p, 0.1, momentum=0.8, nesterov=True)),
    "sgd_clipped": trajectory(lambda p: torch.optim.SGD(p, 0.1), clip=0.5),
    "adam": trajectory(lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    "adamw": trajectory(lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.3)),
}


def rates(make, count=12):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.5)
    schedule = make(optimizer)
    found = []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


schedulers = torch.optim.lr_scheduler
schedules = {
    "step": rates(lambda o: schedulers.StepLR(o, 4, 0.3)),
    "multistep": rates(lambda o: schedulers.MultiStepLR(o, [2, 5, 9], 0.2)),
    "cosine": rates(lambda o: schedulers.CosineAnnealingLR(o, 10, eta_min=0.05))[:11],
    "warmup": rates(lambda o: schedulers.LinearLR(o, start_factor=1 / 4, total_iters=3))[:8],
    "exponential": rates(lambda o: schedulers.ExponentialLR(o, 0.9)),
    "polynomial": rates(lambda o: schedulers.PolynomialLR(o, 12, power=2.0)),
    "restarts": rates(lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.05), 30),
    "one_cycle": rates(lambda o: schedulers.OneCycleLR(o, 0.5, total_steps=12, cycle_momentum=False), 11),
    "triangular": rates(lambda o: schedulers.CyclicLR(o, 0.1, 0.5, 3, 2, cycle_momentum=False)),
}


def plateau(metrics):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.5)
    schedule = schedulers.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, cooldown=1, min_lr=0.05)
    found = []
    for metric in metrics:
        found.append(optimizer.param_groups[0]["lr"])
        schedule.step(metric)
    return {"metrics": metrics, "rates": found}


document = {
    "torch": torch.__version__,
    "inputs": {"start": numbers(start), "gradients": numbers(steps)},
    "optimizers": optimizers,
    "schedules": schedules,
    "plateau": plateau([1.0, 0.9, 0.95, 0.91, 0.92, 0.93, 0.94, 0.85, 0.8499999, 0.86, 0.87, *[0.9] * 14]),
}
Path(__file__).with_name("torch_reference.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
