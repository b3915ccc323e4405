"""What is on record of each listed program: digests of its launches, of its kernels' text, and of its results."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.engine.golden.listing import Listing, digest
from tests.engine.golden.program import Program
from trainer.engine.targets.cpu.device import CpuDevice

GOLDEN = Path(__file__).with_name("golden.json")

Record = dict[str, Any]


def lowered_record(made: Listing) -> Record:
    """The aspects that lowering decides, and two counts that make a difference readable."""
    return {
        "launches": digest(made.launches),
        "kernels": digest(made.kernel_text),
        "launch_count": made.launch_count,
        "kernel_count": len(made.kernels),
    }


def results_digest(program: Program) -> str | None:
    """The digest of the values that the program gives on this host's processor; None where it is only lowered."""
    if not program.is_run:
        return None
    total = hashlib.sha256()
    for array in program.run(_device(program.numerics, program.bfloat16)):
        total.update(f"{array.dtype.str} {array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


@functools.cache
def _device(numerics: Any, bfloat16: Any) -> CpuDevice:
    return CpuDevice(threads=2, numerics=numerics, bfloat16=bfloat16)


def read() -> dict[str, Record]:
    """The records that are kept."""
    records: dict[str, Record] = json.loads(GOLDEN.read_text())
    return records


def write(records: dict[str, Record]) -> None:
    GOLDEN.write_text(json.dumps(records, indent=1) + "\n")


def differences(kept: Record | None, found: Record) -> list[str]:
    """What differs between the record that is kept and what was found, of the aspects that were found."""
    if kept is None:
        return ["not on record"]
    return [
        f"{aspect} differ" if isinstance(value, str) else f"{aspect} was {kept.get(aspect)}, is {value}"
        for aspect, value in found.items()
        if kept.get(aspect) != value
    ]
