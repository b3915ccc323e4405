"""The device that tests of values use: the emulator, or with `TRAINER_TEST_GPU=1` the first GPU of the machine."""

from __future__ import annotations

import os
from typing import Literal

from tests.engine.targets.cuda.recorder import Recorder
from trainer.engine.targets.cuda.device import CudaDevice

IS_REAL = os.environ.get("TRAINER_TEST_GPU") == "1"


def gpu(numerics: Literal["exact", "fast"] = "exact") -> CudaDevice:
    return CudaDevice(0, None if IS_REAL else Recorder(), numerics=numerics)
