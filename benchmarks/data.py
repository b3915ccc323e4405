"""Data: indexing a COCO file of 100,000 images and 800,000 annotations beside pycocotools.

python benchmarks/data.py [coco_index_time …] [--json] [--rounds N]

Each indexing is a process of its own; the memory is the most that it needed beyond its imports, the file's pages in it.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Figure, checkout_environment, run_figures

WORKLOAD = Path(__file__).parent / "workloads" / "coco_index.py"

LEAST_SPEED = 2.0
"""Times as fast as pycocotools."""
LEAST_THRIFT = 1 / 0.45
"""pycocotools' memory over ours."""


@functools.cache
def annotations() -> Path:
    """The file, made once."""
    folder = Path(tempfile.mkdtemp(prefix="trainer-benchmark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "instances.json"
    subprocess.run([sys.executable, str(WORKLOAD), "write", str(path)], check=True)
    return path


def indexed(who: str) -> tuple[float, float]:
    """(seconds, MB) of indexing the file."""
    command = [sys.executable, str(WORKLOAD), who, str(annotations())]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=checkout_environment())
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


FIGURES = [
    Figure(
        "coco_index_time",
        ours=lambda: indexed("ours")[0],
        peer=lambda python: indexed("peer")[0],
        bar=LEAST_SPEED,
        unit="s",
        needs_peer_python=False,
        rounds=3,
    ),
    Figure(
        "coco_index_memory",
        ours=lambda: indexed("ours")[1],
        peer=lambda python: indexed("peer")[1],
        bar=LEAST_THRIFT,
        unit="MB",
        needs_peer_python=False,
        rounds=1,
        is_timing=False,
    ),
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
