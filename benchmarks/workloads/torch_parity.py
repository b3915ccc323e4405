"""Runs PyTorch's optimizers and schedules for `parity.py`: reads a request as JSON, prints the numbers as JSON.

    {"optimizers": {name: {"class": …, "settings": {…}}}, "schedules": {name: {"class": …, "settings": {…}}},
     "start": {parameter: values}, "targets": [{parameter: values}, …], "rate": …, "schedule_steps": …}

Parameters are float64. Each step pulls them toward its targets: the gradient is parameter − target.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch


def optimizer_steps(order: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Returns the parameters after each step."""
    parameters = {key: torch.nn.Parameter(torch.tensor(value, dtype=torch.float64))
                  for key, value in order["start"].items()}  # fmt: skip
    what = order["optimizers"][name]
    optimizer = getattr(torch.optim, what["class"])(parameters.values(), lr=order["rate"], **what["settings"])
    seen = []
    for targets in order["targets"]:
        for key, parameter in parameters.items():
            parameter.grad = parameter.detach() - torch.tensor(targets[key], dtype=torch.float64)
        optimizer.step()
        seen.append({key: parameter.detach().flatten().tolist() for key, parameter in parameters.items()})
    return seen


def schedule_rates(order: dict[str, Any], name: str) -> list[float]:
    """Returns the learning rate of each step."""
    what = order["schedules"][name]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=order["rate"], momentum=0.9)
    schedule = getattr(torch.optim.lr_scheduler, what["class"])(optimizer, **what["settings"])
    rates = []
    for _ in range(order["schedule_steps"]):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def main() -> None:
    order = json.load(sys.stdin)
    answer = {
        "optimizers": {name: optimizer_steps(order, name) for name in order["optimizers"]},
        "schedules": {name: schedule_rates(order, name) for name in order["schedules"]},
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
