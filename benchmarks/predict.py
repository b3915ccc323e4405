"""Predictions for a folder of 500 JPEG files of a megapixel, compared with PyTorch's; and how long the first one takes.

python benchmarks/predict.py [resnet50 …] [--json] [--rounds N] [--peer-python PATH]

The models are exported files. Files are decoded at full resolution on both sides, and both have 2 threads; PyTorch runs
in inference mode behind its DataLoader with 2 workers, in its faster layout. `first_prediction` is a process from its
start to its end that loads the model `detection` and predicts one file, with kernels in the cache. The photographs are
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

from harness import ROOT, Companion, Figure, checkout_environment, command_seconds, require, run_figures

WORKLOAD = [str(Path(__file__).parent / "workloads" / "predicting.py")]

LEAST_SPEED = 1.2
"""Times as fast as PyTorch."""
FIRST_SECONDS = 1.5


@functools.cache
def folder() -> Path:
    """A temporary folder."""
    made = Path(tempfile.mkdtemp(prefix="trainer-benchmark-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def photographs() -> Path:
    """A folder of pictures, made once."""
    require(sklearn="scikit-learn")
    made = folder() / "photographs"
    made.mkdir()
    subprocess.run([sys.executable, *WORKLOAD, "write", str(made)], check=True)
    return made


@functools.cache
def model(kind: str) -> Path:
    """An exported model, made once."""
    file = folder() / f"{kind}.model"
    environment = checkout_environment()
    subprocess.run([sys.executable, *WORKLOAD, "export", kind, str(file)], check=True, env=environment, cwd=ROOT)
    return file


@functools.cache
def ours(kind: str) -> Companion:
    """A process that predicts the folder when it is asked to."""
    return Companion(sys.executable, *WORKLOAD, "ours", str(model(kind)), str(photographs()), rests=True)


@functools.cache
def peer(kind: str, python: str) -> Companion:
    """PyTorch's."""
    import PIL

    pillow = str(Path(PIL.__file__).parents[1])
    return Companion(python, *WORKLOAD, "peer", kind, str(photographs()), pillow)


def speed(kind: str) -> Figure:
    """Images a second of a model, compared with the peer's."""
    return Figure(
        kind,
        ours=lambda: ours(kind)(),
        peer=lambda python: peer(kind, python)(),
        bar=LEAST_SPEED,
        better="higher",
        unit="images/s",
        rounds=5,
    )


@functools.cache
def one_file() -> Path:
    """One of the pictures, predicted once, so that the kernels are in the cache."""
    file = photographs() / "000.jpg"
    command_seconds([sys.executable, *WORKLOAD, "first", str(model("detection")), str(file)])
    return file


def first_prediction_s() -> float:
    file = one_file()
    return command_seconds([sys.executable, *WORKLOAD, "first", str(model("detection")), str(file)])


FIGURES = [
    speed("resnet50"),
    speed("detection"),
    Figure("first_prediction", first_prediction_s, bar=FIRST_SECONDS, unit="s", rounds=5),
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
