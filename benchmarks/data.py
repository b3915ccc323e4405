"""Compares indexing a COCO file with pycocotools, and loading JPEG files with PyTorch's DataLoader.

python benchmarks/data.py [coco_index_time …] [--json] [--rounds N] [--peer-python PATH]

Each indexing (100,000 images, 800,000 annotations) runs in its own process. The memory is the peak beyond its imports,
including the file's pages.

Loading is an epoch of 512 photographs of 640x480 that become batches of 32 at 224x224 (random resized crop, flip,
color jitter), in 2 worker processes that already run. `loader_same` calls the same function as the peer's data set,
`loader_ours` is our reader with our transforms, and `loader_scaled` adds scaled decoding. The photographs are
scikit-learn's, which the extra `dev` has; the peer's interpreter needs torch.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Companion, Figure, checkout_environment, require, run_figures

WORKLOAD = Path(__file__).parent / "workloads" / "coco_index.py"
LOADING = Path(__file__).parent / "workloads" / "loading.py"

LEAST_SPEED = 2.0
"""Minimum speed relative to pycocotools."""
LEAST_THRIFT = 1 / 0.45
"""Minimum of pycocotools' memory divided by ours."""


@functools.cache
def annotations() -> Path:
    """Returns the COCO file, which it writes once."""
    folder = Path(tempfile.mkdtemp(prefix="trainer-benchmark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "instances.json"
    subprocess.run([sys.executable, str(WORKLOAD), "write", str(path)], check=True)
    return path


def indexed(who: str) -> tuple[float, float]:
    """Returns the seconds and MB of indexing the file."""
    command = [sys.executable, str(WORKLOAD), who, str(annotations())]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=checkout_environment())
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


LEAST_SCALED_SPEED = 1.3
"""Minimum speed relative to the peer, which decodes whole images."""


@functools.cache
def photographs() -> Path:
    """Returns a folder of images, which it writes once."""
    require(sklearn="scikit-learn")
    folder = Path(tempfile.mkdtemp(prefix="trainer-benchmark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run([sys.executable, str(LOADING), "write", str(folder)], check=True)
    return folder


@functools.cache
def loading(kind: str, python: str) -> Companion:
    """Returns a process that loads an epoch on request."""
    import PIL

    pillow = str(Path(PIL.__file__).parents[1])
    return Companion(python, str(LOADING), kind, str(photographs()), pillow)


def loading_figure(kind: str, bar: float) -> Figure:
    """Images per second of one of our loaders, relative to the peer's."""
    return Figure(
        f"loader_{kind}",
        ours=lambda: loading(kind, sys.executable)(),
        peer=lambda python: loading("peer", python)(),
        bar=bar,
        better="higher",
        unit="images/s",
        rounds=5,
    )


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
    loading_figure("same", 1.0),
    loading_figure("ours", 1.0),
    loading_figure("scaled", LEAST_SCALED_SPEED),
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
