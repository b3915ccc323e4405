"""Networks that nobody tuned the engine for, compared with PyTorch's best: training, inference, losses, first steps.

python benchmarks/unseen.py [densenet swin_train training …] --peer-python PATH [--json] [--rounds N] [--record]
python benchmarks/unseen.py NETWORK --launches --peer-python PATH [--bfloat16] [--rows N]
python benchmarks/unseen.py --drawn [mobilenet_v2 drawn_training …]
python benchmarks/unseen.py --draw

A network's name selects all of its figures:

    NAME_train, NAME_train_bfloat16         a training step; families: training, training_bfloat16
    NAME_train_fast                         a training step, ours with `numerics: {class: fast}`; family: training_fast
    NAME_train_tiles                        a training step in bfloat16, ours with `numerics: {bfloat16: tiles}`, on a
                                            processor with AMX; family: training_tiles
    NAME_inference_1, NAME_inference_32     a batch of 1 and of 32 in evaluation mode; family: inference
    NAME_losses, NAME_losses_bfloat16       largest relative difference of five losses from PyTorch's, with both sides
                                            in float64 or both in bfloat16
    NAME_first_step_cold, …_warm            seconds of the first training step, with kernels compiled or cached

PyTorch runs contiguous, channels-last, and the faster of both compiled (this needs a C++ compiler); the fastest counts.
Measuring a network takes several minutes; with `--record`, repeat an interrupted run to measure the missing figures.

`--launches` lists the launches of a training step, largest possible gains first: each with its share of the time, its
fraction of the roofline, its module, and PyTorch's time of that module.

The ten networks were fixed by name before any was measured. OTHERS lists twenty more. `--draw` prints five of them,
which `--drawn` measures once, when the kernels are final; the names of their families begin with `drawn_`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import Companion, Family, Figure, checkout_environment, largest, run_figures
from steps import FastestWay

from trainer.engine.targets.cpu.machine import host_machine
from trainer.engine.targets.cpu.topology import available_threads

SCRIPT = str(Path(__file__).parent / "workloads" / "untuned.py")
NETWORKS = ("densenet", "efficientnet", "convnext", "swin", "detector", "hourglass", "dcgan", "superresolution",
            "wavenet", "decoder")  # fmt: skip
OTHERS = (
    "vgg16", "inception_v3", "mobilenet_v2", "mobilenet_v3_large", "shufflenet_v2", "squeezenet", "regnet_y_800mf",
    "resnext50", "wide_resnet50", "ghostnet", "mlp_mixer", "deit_tiny", "segformer_b0", "deeplab_v3", "unet_3d",
    "stylegan_synthesis", "resnet1d_ecg", "conv_lstm", "temporal_convolution", "conformer",
)  # fmt: skip
DRAWN, SEED = 5, 20261123

MEAN_BAR, TRAINING_BAR, INFERENCE_BAR = 1.5, 1.2, 1.1
LOSS_BARS = {"": ("float64", 1e-2), "_bfloat16": ("bfloat16", 5e-2)}
"""By suffix of the figure, the precision and the maximum relative difference of five losses from PyTorch's. In float32,
sums in a different order diverge: PyTorch's float32 and float64 differ by 8e-3 in the hourglass and the DCGAN.
"""

COLD_SECONDS, WARM_SECONDS = 3.0, 1.0
TILES = ("--precision=bfloat16", "--sums=tiles")
WAYS: dict[str, tuple[str, ...]] = {"contiguous": (), "channels-last": ("--channels-last",)}
ROUNDS = 5


def draw() -> list[str]:
    """Returns the five other networks that are measured once, at the end."""
    return sorted(random.Random(SEED).sample(OTHERS, DRAWN))


def words(network: str, framework: str, *options: str) -> tuple[str, ...]:
    """Returns the command of one side of a workload, without its interpreter."""
    return SCRIPT, network, framework, f"--threads={available_threads()}", *options


def timed(network: str, name: str, bar: float, *options: str) -> Figure:
    """A figure of the milliseconds of a step on both sides."""
    ours = Companion(sys.executable, *words(network, "trainer", *options))
    ways = {way: words(network, "torch", *options, *more) for way, more in WAYS.items()}
    peer = FastestWay(name, ways, refinement=("--compiled",))
    return Figure(name, Alternating(ours, peer), peer, bar, rounds=ROUNDS)


class Alternating:
    """Our side of a figure. Before another figure starts, ends the processes of both sides to free their memory."""

    running: Alternating | None = None

    def __init__(self, ours: Companion, peer: FastestWay) -> None:
        self._ours, self._peer = ours, peer

    def __call__(self) -> float:
        if Alternating.running is not self:
            if Alternating.running is not None:
                Alternating.running.close()
            Alternating.running = self
        return self._ours()

    def close(self) -> None:
        self._ours.close()
        self._peer.close()


@functools.cache
def losses(python: str, network: str, framework: str, *options: str) -> list[float]:
    """The losses of the first steps."""
    command = (python, *words(network, framework, "--measure=losses", *options))
    answer = subprocess.run(command, env=checkout_environment(), check=True, stdout=subprocess.PIPE, text=True)
    found: list[float] = json.loads(answer.stdout)
    return found


def loss_difference(python: str, network: str, *options: str) -> float:
    """The largest relative difference of a loss from PyTorch's; NaN if one is NaN."""
    ours, theirs = (
        losses(each, network, framework, *options)
        for each, framework in ((sys.executable, "trainer"), (python, "torch"))
    )
    return largest(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def first_step(network: str, cache: str) -> float:
    """Seconds of the first training step, with the kernels in folder `cache`."""
    environment = checkout_environment(TRAINER_CACHE_DIR=cache)
    command = (sys.executable, *words(network, "trainer", "--measure=first_step"))
    return float(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def cold(network: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return first_step(network, folder)


def warm(network: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        first_step(network, folder)
        return first_step(network, folder)


def figures(python: str | None, networks: Sequence[str] = NETWORKS, prefix: str = "") -> list[Figure | Family]:
    """Returns families of timed figures, named with `prefix`, and figures of losses and first steps."""

    def family(name: str, parts: Sequence[tuple[str, tuple[str, ...]]], bar: float) -> Family:
        return Family(
            prefix + name,
            tuple(
                timed(network, f"{network}_{part}", bar, *options) for network in networks for part, options in parts
            ),
            MEAN_BAR,
        )

    def single(name: str, ours: Callable[[], float], bar: float, unit: str, *, is_timing: bool = False) -> Figure:
        return Figure(name, ours, bar=bar, unit=unit, rounds=3 if is_timing else 1, is_timing=is_timing)

    batches = [(f"inference_{batch}", ("--inference", f"--batch={batch}")) for batch in (1, 32)]
    return [
        family("training", [("train", ())], TRAINING_BAR),
        family("training_fast", [("train_fast", ("--numerics=fast",))], TRAINING_BAR),
        family("training_bfloat16", [("train_bfloat16", ("--precision=bfloat16",))], TRAINING_BAR),
        *([family("training_tiles", [("train_tiles", TILES)], TRAINING_BAR)] if host_machine().bfloat16_tiles else []),
        family("inference", batches, INFERENCE_BAR),
        *(
            single(
                f"{network}_losses{suffix}",
                functools.partial(loss_difference, python, network, f"--precision={precision}"),
                bar,
                "of 1",
            )
            for network in networks
            for suffix, (precision, bar) in LOSS_BARS.items()
            if python
        ),
        *(
            single(f"{network}_first_step_{kind}", functools.partial(seconds, network), bar, "s", is_timing=True)
            for network in networks
            for kind, seconds, bar in (("cold", cold, COLD_SECONDS), ("warm", warm, WARM_SECONDS))
        ),
    ]


def names_of(network: str, listed: Sequence[Figure | Family]) -> list[str]:
    """Returns the names of a network's figures."""
    found = [part.name for each in listed for part in (each.figures if isinstance(each, Family) else (each,))]
    return [name for name in found if name.startswith(f"{network}_")]


def profiled(python: str, network: str, framework: str, *options: str) -> dict[str, Any]:
    """Returns the output of `--measure=profile`."""
    command = (python, *words(network, framework, "--measure=profile", *options))
    answer = subprocess.run(command, env=checkout_environment(), check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def launch_table(ours: dict[str, Any], theirs: dict[str, float] | None, count: int) -> Iterator[str]:
    """Yields the lines of a table of a step's launches, sorted by the time that they lose relative to the roofline.

    The column `of module` has the time of all launches of the same module, and a dash for launches that several modules
    share. Modules of two networks with the same path are added up.
    """

    def seconds(launch: dict[str, Any]) -> float:
        return float(launch["busy"] + launch["waiting"])

    modules: dict[str, float] = {}
    for launch in ours["launches"]:
        modules[launch["module"]] = modules.get(launch["module"], 0.0) + seconds(launch)
    total = ours["seconds"]
    yield f"{'lost ms':>8}{'ms':>9}{'share%':>8}{'roof%':>7}{'of module':>11}{'PyTorch':>9}  launch"
    for launch in sorted(ours["launches"], key=lambda each: each["roofline"] - seconds(each))[:count]:
        spent, module = seconds(launch), launch["module"]
        peer = theirs.get(module) if theirs and module else None
        cells = (
            f"{1e3 * (spent - launch['roofline']):8.2f}{1e3 * spent:9.2f}{100 * spent / total:8.1f}"
            f"{100 * launch['roofline'] / spent if spent else 0:7.0f}"
            f"{1e3 * modules[module] if module else math.nan:11.2f}{1e3 * peer if peer else math.nan:9.2f}"
        )
        yield f"{cells.replace('nan', '  -')}  {launch['kernel']} {launch['shape']} {module}".rstrip()
    bound = sum(launch["roofline"] for launch in ours["launches"])
    yield f"{len(ours['launches'])} launches, {1e3 * total:.1f} ms a step, {1e3 * bound:.1f} ms at the roofline"
    if theirs:
        yield f"PyTorch: {1e3 * sum(theirs.values()):.1f} ms, {1e3 * theirs['']:.1f} of them outside modules"


def print_launches(network: str, python: str | None, rows: int, options: Sequence[str]) -> None:
    """Prints the launches of a network's training step, with the times of the faster of PyTorch's layouts."""
    ours = profiled(sys.executable, network, "trainer", *options)
    theirs = [profiled(python, network, "torch", *options, *more) for more in WAYS.values()] if python else []
    fastest = min(theirs, key=lambda seconds: sum(seconds.values())) if theirs else None
    print("\n".join(launch_table(ours, fastest, rows)))


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peer-python")
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--drawn", action="store_true")
    parser.add_argument("--launches", action="store_true")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--rows", type=int, default=30)
    own, others = parser.parse_known_args()
    if own.draw:
        print("\n".join(draw()))
        return 0
    if own.launches:
        known = (*NETWORKS, *draw())
        if len(others) != 1 or others[0] not in known:
            parser.error(f"--launches needs one network, found {' '.join(others) or 'none'}: {', '.join(known)}")
        print_launches(others[0], own.peer_python, own.rows, ["--precision=bfloat16"] if own.bfloat16 else [])
        return 0
    networks = draw() if own.drawn else NETWORKS
    listed = figures(own.peer_python, networks, "drawn_" if own.drawn else "")
    expanded = [name for word in others for name in (names_of(word, listed) if word in networks else (word,))]
    peer = [f"--peer-python={own.peer_python}"] if own.peer_python else []
    return run_figures(listed, [*expanded, *peer])


if __name__ == "__main__":
    raise SystemExit(main())
