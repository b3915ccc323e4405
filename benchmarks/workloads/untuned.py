"""Times a network of `untuned_networks.py` or `drawn_networks.py` in the engine or in PyTorch: answers each line of
standard input with the milliseconds of one step (median of several).

Usage: untuned.py NETWORK trainer|torch --threads N [--steps N] [--batch N --inference] [--precision NAME]
                  [--numerics NAME] [--sums NAME] [--channels-last] [--compiled] [--measure NAME]

Three measures print one answer without waiting for a line: `losses` (of the first five steps), `first_step` (seconds
from a ready network to its first loss, without imports) and `profile` (JSON of the engine's launches, or of PyTorch's
seconds of each module, forward and backward).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from timing import step_ms

COMPARED_STEPS = 5
PROFILED_STEPS = 3
MODULE = "module "
"""Prefix of the name of a PyTorch profiler range, before the module's path."""


def in_trainer(arguments: argparse.Namespace) -> Callable[[], float]:
    """Returns a step on the engine, with kernels that no tuner has chosen."""
    import framework
    from untuned_networks import initial

    from trainer import engine
    from trainer.engine.targets.cpu.device import CpuDevice

    engine.set_default_device(
        CpuDevice(threads=arguments.threads, numerics=arguments.numerics, bfloat16=arguments.sums)
    )
    network = named(arguments.network)
    models = network.build()
    for model in models:
        model.load_state_dict({name: initial(name, shape) for name, shape in model.named_shapes().items()})
        if arguments.precision == "float64":
            model.astype(engine.float64)
    inputs = inputs_of(network, arguments)
    trained = framework.Trained(models, network.optimizer, arguments.precision)
    if arguments.inference:
        models[0].eval()
        inputs = inputs[:1]

        def infer(x: Any) -> Any:
            outputs = trained.apply(x)
            return engine.max(outputs[-1] if isinstance(outputs, tuple) else outputs)

    step: Any = engine.trace(infer if arguments.inference else lambda *arrays: network.step(trained, *arrays))
    run = lambda: float(step(*inputs).item())  # noqa: E731
    if arguments.measure == "profile":
        print(json.dumps(engine.profile(run, steps=PROFILED_STEPS).to_json()))
    return run


def in_torch(arguments: argparse.Namespace) -> Callable[[], float]:
    """Returns a step in PyTorch."""
    import torch
    import torch_framework

    sys.modules["framework"] = torch_framework
    from untuned_networks import initial

    torch.set_flush_denormal(True)  # as the engine's steps do
    torch.set_num_threads(arguments.threads)
    layout = torch.channels_last if arguments.channels_last else torch.contiguous_format
    network = named(arguments.network)
    models = network.build()
    for model in models:
        values = {
            name: torch.from_numpy(initial(name, tuple(value.shape)))
            for name, value in model.state_dict().items()
            if value.is_floating_point()
        }
        model.load_state_dict(values, strict=False)
        for module in model.modules():  # compiled inference can't convert arrays to tensors
            for name, value in vars(module).items():
                if isinstance(value, np.ndarray):
                    setattr(module, name, torch.from_numpy(value))
        model.to(memory_format=layout)
        if arguments.precision == "float64":
            model.double()
    inputs = [torch.from_numpy(array) for array in inputs_of(network, arguments)]
    inputs = [x.contiguous(memory_format=layout) if x.ndim == 4 else x for x in inputs]
    trained = torch_framework.Trained(models, network.optimizer, arguments.precision, arguments.compiled)
    if not arguments.inference:
        run = lambda: network.step(trained, *inputs).item()  # noqa: E731
        if arguments.measure == "profile":
            print(json.dumps(module_seconds(run, models)))
        return run
    models[0].eval()

    @torch.inference_mode()
    def infer() -> float:
        outputs = trained.apply(inputs[0])
        return (outputs[-1] if isinstance(outputs, tuple) else outputs).max().item()

    return infer


def named(name: str) -> Any:
    """Returns a network in the framework that is imported as `framework`."""
    import drawn_networks
    import untuned_networks

    return {**untuned_networks.NETWORKS, **drawn_networks.NETWORKS}[name]


def inputs_of(network: Any, arguments: argparse.Namespace) -> list[np.ndarray]:
    """Returns a batch, in float64 if that is the precision."""
    arrays = network.inputs(np.random.default_rng(0), arguments.batch or network.batch)
    dtypes = {"float32": arguments.precision if arguments.precision == "float64" else "float32"}
    return [array.astype(dtypes.get(array.dtype.name, array.dtype)) for array in arrays]


def module_seconds(run: Callable[[], object], models: list[Any]) -> dict[str, float]:
    """Returns PyTorch's seconds of a step by innermost module, forward and backward; "" is the rest.

    Modules open a range while they run, and a gradient has the sequence number of its forward operation.
    """
    import torch

    def opened(path: str) -> Callable[..., None]:
        def enter(module: Any, _: Any) -> None:
            module.open_range = torch.profiler.record_function(MODULE + path)
            module.open_range.__enter__()

        return enter

    for model in models:
        for path, module in model.named_modules():
            module.register_forward_pre_hook(opened(path))
            module.register_forward_hook(lambda module, _, __: module.open_range.__exit__(None, None, None))
    for _ in range(2):
        run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(PROFILED_STEPS):
            run()
    seconds, owners = {"": 0.0}, dict[int, str]()
    for event in sorted(profiler.events(), key=lambda event: event.time_range.start):
        path, each = None, event
        while each is not None and path is None:
            path = each.name.removeprefix(MODULE) if each.name.startswith(MODULE) else None
            each = each.cpu_parent
        if path is not None and event.sequence_nr >= 0:
            owners.setdefault(event.sequence_nr, path)
        each = event
        while each is not None and path is None:
            path, each = owners.get(each.sequence_nr), each.cpu_parent
        seconds[path or ""] = seconds.get(path or "", 0.0) + event.self_cpu_time_total * 1e-6 / PROFILED_STEPS
    return seconds


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the arguments of a command; of this one if `words` is None."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("framework", choices=("trainer", "torch"))
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--precision", choices=("float32", "bfloat16", "float64"), default="float32")
    parser.add_argument("--numerics", choices=("exact", "fast"), default="exact", help="numerics class; trainer only")
    parser.add_argument("--sums", choices=("pairs", "tiles"), default="pairs", help="sums in bfloat16; trainer only")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--measure", choices=("step_ms", "losses", "first_step", "profile"), default="step_ms")
    return parser.parse_args(words)


def main() -> None:
    arguments = parsed()
    run = (in_torch if arguments.framework == "torch" else in_trainer)(arguments)
    if arguments.measure == "profile":
        return
    if arguments.measure == "losses":
        print(json.dumps([run() for _ in range(COMPARED_STEPS)]))
    elif arguments.measure == "first_step":
        start = time.perf_counter()
        run()
        print(time.perf_counter() - start)
    else:
        for _ in range(2):
            run()
        for _ in sys.stdin:
            print(step_ms(run, arguments.steps), flush=True)


if __name__ == "__main__":
    main()
