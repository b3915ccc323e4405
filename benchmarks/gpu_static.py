"""Resources and bounds of kernels for NVIDIA GPUs, without a GPU: `python benchmarks/gpu_static.py [PROGRAM ...]`.

Lowers and assembles the steps of listed programs (tests/engine/golden). Prints for each kernel its registers, shared
memory and occupancy (the share of an H100's threads that are resident); for each product also its bound, the maximum
share of the peak that its inner loop allows, from the instruction counts in the PTX. Nothing is timed. `--json FILE`
writes the table. Needs `ptxas`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import ROOT  # also makes the checkout importable

from tests.engine.golden.lowering import graph_of
from tests.engine.golden.programs import PROGRAMS
from tests.engine.targets.ptx import ptxas
from tests.engine.targets.ptx.device import EmulatedDevice
from trainer import TrainerError
from trainer.engine.program.work import KernelSource
from trainer.engine.targets.ir.writer import joined
from trainer.engine.targets.ptx.assembly import PROCESSOR, assembled
from trainer.engine.targets.ptx.kernels.product import ProductKernel
from trainer.engine.targets.ptx.launch import Launch

__all__ = ["ROOT", "main"]

DEFAULT = ("digits", "ResNet-50 training", "wide ResNet training, tiles", "attention")
BATCH = 200
WARP = 32

# An H100's streaming multiprocessor (NVIDIA H100 Tensor Core GPU Architecture, 2022; CUDA C++ Programming Guide).
THREADS, BLOCKS, REGISTERS, SHARED_BYTES = 2048, 32, 65536, 227 << 10
RESERVED_BYTES = 1 << 10
"""Shared memory that the system takes in each block."""
REGISTERS_AT_ONCE = 256
"""Warps receive registers in units of this size."""
WARP_INSTRUCTIONS = 4
"""Instructions per cycle, from different warps; also float32 multiply-adds."""
SHARED_BYTES_A_CYCLE = 128
TENSOR_PRODUCTS = {"bfloat16": 2048, "float16": 2048, "float32": 1024}
"""Multiply-adds per cycle of tensor cores, by the operands' dtype; float32 is TF32."""
DOUBLE_PRODUCTS = 64


@dataclass(frozen=True)
class Row:
    """A kernel's resources and, for products, its bound."""

    kernel: str
    threads: int
    registers: int
    shared: int
    occupancy: float
    bound: float | None
    limit: str


def occupancy(threads: int, registers: int, shared: int) -> float:
    """The share of a multiprocessor's threads that are resident."""
    warps = -(-threads // WARP)
    of_warp = -(-registers * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    blocks = min(
        BLOCKS, THREADS // (warps * WARP), REGISTERS // (of_warp * warps), SHARED_BYTES // (shared + RESERVED_BYTES)
    )
    return blocks * warps * WARP / THREADS


def step_instructions(text: str, products: str, wanted: int) -> int:
    """Returns the instructions of a thread in a step of the loop over the depth, or in total without such a loop.

    An inner loop counts as often as it takes to run `wanted` instructions with the prefix `products`.
    """
    lines = [line.strip() for line in text.splitlines()]
    labels = {line[:-1]: number for number, line in enumerate(lines) if re.match(r"\$\w+:$", line)}
    loops = []
    for number, line in enumerate(lines):
        branch = re.match(r"(?:@!?%\w+\s+)?bra(?:\.uni)?\s+(\$\w+);", line)
        if branch and labels.get(branch[1], number) < number:
            loops.append((labels[branch[1]], number + 1))
    code = re.compile(r"(?:@!?%\w+\s+)?[a-z][\w.:]*(?:\s|$)")

    def count(first: int, last: int, prefix: str = "") -> int:
        found = [line for line in lines[first:last] if code.match(line)]
        return sum(line.split(maxsplit=1)[0].startswith(prefix) for line in found)

    multiplying = [loop for loop in loops if count(*loop, products)] or [(0, len(lines))]
    outer = max(multiplying, key=lambda loop: (count(*loop, products), loop[1] - loop[0]))
    within = [loop for loop in multiplying if outer[0] <= loop[0] and loop[1] <= outer[1]]
    inner = min(within, key=lambda loop: loop[1] - loop[0])
    again = wanted / count(*inner, products) - 1
    return round(count(*outer) + again * count(*inner))


def bound(kernel: ProductKernel, text: str) -> tuple[float, str]:
    """Returns the maximum share of the peak, and what limits it."""
    tile, itemsize = kernel.tile, kernel.left.dtype.itemsize if kernel.tile.tensor else kernel.dtype.itemsize
    warps = tile.threads // WARP
    products = tile.rows * tile.columns * tile.depth
    if tile.tensor:
        fragment = 16 * 8 * (16 if itemsize == 2 else 8)
        instructions = step_instructions(text, "mma.sync", products // fragment // warps)
        peak = products / TENSOR_PRODUCTS[kernel.left.dtype.name]
        lines = warps * (tile.share_rows + tile.share_columns) * tile.depth * itemsize
    else:
        name = "fma.rn" if kernel.dtype.is_float else "mad.lo"
        instructions = step_instructions(text, name, products // tile.threads)
        peak = products / (WARP * WARP_INSTRUCTIONS if itemsize == 4 else DOUBLE_PRODUCTS)
        across = min(WARP, tile.shares[1])
        lines = warps * (across * tile.share_columns + WARP // across * tile.share_rows) * tile.depth * itemsize
    cycles = {
        "multiply-adds": peak,
        "instructions": warps * instructions / WARP_INSTRUCTIONS,
        "shared memory": lines / SHARED_BYTES_A_CYCLE,
    }
    limit = max(cycles, key=lambda name: cycles[name])
    return peak / cycles[limit], limit


def rows_of(launches: dict[KernelSource, Launch], processor: str, folder: Path) -> list[Row]:
    """Returns a row for each kernel."""
    rows, sources = [], list(launches)
    for first in range(0, len(sources), BATCH):
        batch = sources[first : first + BATCH]
        text = assembled(joined(source.render(f"k{number}") for number, source in enumerate(batch)), processor)
        used = ptxas.usage(text, processor, folder)
        entries = dict(zip(re.findall(r"\.entry (k\d+)\(", text), re.split(r"\.entry k\d+\(", text)[1:], strict=True))
        for number, source in enumerate(batch):
            name, launch, kernel = f"k{number}", launches[source], source.key
            is_product = isinstance(kernel, ProductKernel) and kernel.depth > 0
            share, limit = bound(kernel, entries[name]) if is_product else (None, "")
            label = f"{launch.label} {kernel.tile.rows}x{kernel.tile.columns}" if is_product else launch.label
            need, shared = used[name], used[name].shared + launch.shared
            rows.append(
                Row(label, launch.threads, need.registers, shared,
                    occupancy(launch.threads, need.registers, shared), share, limit)
            )  # fmt: skip
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", default=DEFAULT, help="names of listed programs")
    parser.add_argument("--processor", default=PROCESSOR, help="name of the processor in PTX")
    parser.add_argument("--json", type=Path, help="file for the table")
    options = parser.parse_args()
    unknown = [name for name in options.programs if name not in PROGRAMS]
    if unknown or ptxas.found() is None:
        raise SystemExit(str(TrainerError(
            f"no listed program is named {', '.join(unknown)}" if unknown else "ptxas is not installed",
            expected="names in tests/engine/golden/programs.py" if unknown else "pip install nvidia-cuda-nvcc-cu12",
        )))  # fmt: skip
    device = EmulatedDevice(options.processor, flush=True, tensor_cores=("bfloat16", "float16"))
    launches: dict[KernelSource, Launch] = {}
    for name in options.programs:
        graph = graph_of(PROGRAMS[name])
        for launch in device.lowered(graph.results, graph.updates).launches:
            launches.setdefault(launch.source, launch)
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(launches, options.processor, Path(folder))
    rows.sort(key=lambda row: (row.bound is None, row.bound or row.occupancy))
    print(f"{'kernel':44} {'threads':>7} {'registers':>9} {'shared':>7} {'occupancy':>9}  bound")
    for row in rows:
        reached = "" if row.bound is None else f"{row.bound:5.0%} by {row.limit}"
        sizes = f"{row.threads:7} {row.registers:9} {row.shared:7} {row.occupancy:9.0%}"
        print(f"{row.kernel[:44]:44} {sizes}  {reached}")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
