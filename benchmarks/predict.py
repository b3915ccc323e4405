"""Prediction speed on a folder of 500 one-megapixel JPEG files, relative to PyTorch, and time to the first prediction.

python benchmarks/predict.py [resnet50 …] [--json] [--rounds N] [--peer-python PATH]

The models are exported files. Both sides decode files at full resolution and use 2 threads; PyTorch runs in inference
mode with a DataLoader of 2 workers, in its faster memory layout. `first_prediction` is the time of a process, from its
start to its end, that loads the model `detection` and predicts one file with cached kernels. The photographs come from
scikit-learn (extra `dev`); the peer's interpreter needs torch.
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
"""Minimum speed relative to PyTorch."""
FIRST_SECONDS = 1.5


@functools.cache
def folder() -> Path:
    """A temporary folder."""
    made = Path(tempfile.mkdtemp(prefix="trainer-benchmark-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def photographs() -> Path:
    """A folder of photographs, created once."""
    require(sklearn="scikit-learn")
    made = folder() / "photographs"
    made.mkdir()
    subprocess.run([sys.executable, *WORKLOAD, "write", str(made)], check=True)
    return made


@functools.cache
def model(kind: str) -> Path:
    """An exported model, created once."""
    file = folder() / f"{kind}.model"
    environment = checkout_environment()
    subprocess.run([sys.executable, *WORKLOAD, "export", kind, str(file)], check=True, env=environment, cwd=ROOT)
    return file


@functools.cache
def ours(kind: str) -> Companion:
    """A process that predicts the folder at each request."""
    return Companion(sys.executable, *WORKLOAD, "ours", str(model(kind)), str(photographs()), rests=True)


@functools.cache
def peer(kind: str, python: str) -> Companion:
    """A PyTorch process that predicts the folder at each request."""
    import PIL

    pillow = str(Path(PIL.__file__).parents[1])
    return Companion(python, *WORKLOAD, "peer", kind, str(photographs()), pillow)


def speed(kind: str) -> Figure:
    """Images per second of a model, compared with the peer."""
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
    """Returns one of the photographs, after predicting it once to fill the kernel cache."""
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
