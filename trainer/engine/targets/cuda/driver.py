"""CUDA through CuPy: finds GPUs, and raises failures as one-sentence errors. No other module imports CuPy.

The device uses these parts of `cupy.cuda`: `runtime` (versions, properties, `memcpyAsync`), `Device`, `MemoryPool`,
`alloc_pinned_memory`, `Stream` (with capture into a `Graph`), `Event`, and `function.Module`. With
`TRAINER_CUDA=emulated` an object with the same interface replaces it and executes kernels in the tests' emulator.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trainer
from trainer import TrainerError
from trainer.engine.targets import DeviceFailure, DeviceMemoryError

VARIABLE = "TRAINER_CUDA"
EMULATED = "emulated"
EMULATOR = "tests.engine.targets.cuda.recorder"

OLDEST_DRIVER = 12030
"""The minimum CUDA version of a driver, in CuPy's encoding: it accepts the PTX version of the kernels."""

OLDEST_CAPABILITY = (8, 0)
"""Ampere: the first architecture with `cp.async` and bfloat16 products."""

PROCESSORS = {(9, 0): "sm_90a", (10, 0): "sm_100a"}
"""PTX names of processors whose specific instructions kernels may use; others get code for all GPUs since Ampere."""

OTHER_PROCESSORS = "sm_80"
_NO_DEVICE, _OLD_DRIVER = 100, 35
_OUT_OF_MEMORY = 2
_CHECK = "Check `nvidia-smi` and the system's log for Xid messages. Restart the process: the run resumes from its last "
_RESUME = _CHECK + "checkpoint."
_FAILURES: dict[int, tuple[str, str]] = {
    **dict.fromkeys(
        (200, 209, 218, 222, 301),
        ("the driver of {gpu} can't load a kernel", "Update NVIDIA's driver, or compute on `device: cpu`."),
    ),
    **dict.fromkeys(
        (700, 710, 714, 715, 716, 717, 718, 719),
        ("a kernel failed on {gpu}", "Compare with `device: cpu`; the run resumes from its last checkpoint."),
    ),
    701: ("a kernel needs more registers or threads than {gpu} has", "Compute it on `device: cpu`."),
    702: ("a kernel took longer on {gpu} than the system allows", "Use a GPU without a display; then resume the run."),
}
"""Problem and hint by status code, which is equal in CUDA's driver and runtime. Any other code means a lost GPU."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that kernels can run on: CuPy's `cuda`, the GPU's number, its name and processor, and bytes of memory."""

    cuda: Any
    index: int
    name: str
    processor: str
    memory: int

    @property
    def device(self) -> str:
        """The name of the GPU's device."""
        return device_name(self.index)

    @contextmanager
    def used(self, doing: str, held: Callable[[], str] = str) -> Iterator[Any]:
        """Selects the GPU for calls inside the `with` block, in any thread; yields CuPy's `cuda`.

        Raises:
            DeviceMemoryError: the GPU's memory is full; `held` describes its contents.
            DeviceFailure: another call failed.
        """
        try:
            with self.cuda.Device(self.index):
                yield self.cuda
        except self.cuda.memory.OutOfMemoryError as error:
            raise self._full(doing, str(error), held()) from error
        except (self.cuda.runtime.CUDARuntimeError, self.cuda.driver.CUDADriverError) as error:
            if error.status == _OUT_OF_MEMORY:
                raise self._full(doing, str(error), held()) from error
            problem, hint = _FAILURES.get(error.status, ("{gpu} no longer responds", _RESUME))
            raise DeviceFailure(problem.format(gpu=f"{self.device} ({self.name})"), found=f"{error}, while {doing}",
                                hint=hint) from error  # fmt: skip

    def _full(self, doing: str, error: str, held: str) -> DeviceMemoryError:
        found = f"{held or 'nothing'}, of {in_bytes(self.memory)} in all; {error.rstrip('.')}, while {doing}"
        return DeviceMemoryError(
            f"out of memory on {self.device} ({self.name})",
            found=found,
            hint="Use smaller batches, or end other programs on this GPU (`nvidia-smi` lists them).",
        )


def open_gpu(index: int = 0, cuda: Any = None) -> Gpu:
    """Opens GPU number `index` through `cuda` (default: CuPy, or the emulator that `TRAINER_CUDA` selects).

    Raises:
        TrainerError: CuPy is missing, the GPU does not exist or is older than Ampere, or its driver is too old.
    """
    cuda = cuda or load()
    count, version, properties = _found(cuda, index)
    if index >= count:
        raise TrainerError(
            f"there is no GPU for `device: {device_name(index)}`",
            found=f"{count} NVIDIA GPU{'' if count == 1 else 's'}" if count else "no NVIDIA GPU, or no driver for it",
            expected=f"a GPU number below {count}" if count else "an NVIDIA GPU and its driver",
            hint="Set `device: cpu`; `trainer doctor` lists what can be used.",
        )
    if version < OLDEST_DRIVER:
        raise _old_driver(version)
    name, capability = properties["name"].decode(), (properties["major"], properties["minor"])
    if capability < OLDEST_CAPABILITY:
        raise TrainerError(
            f"{name} is too old for `device: cuda`",
            found="compute capability {}.{}".format(*capability),
            expected="{}.{} or later: Ampere (2020), Ada, Hopper, Blackwell".format(*OLDEST_CAPABILITY),
            hint="Set `device: cpu`.",
        )
    processor = PROCESSORS.get(capability, OTHER_PROCESSORS)
    return Gpu(cuda, index, name, processor, int(properties["totalGlobalMem"]))


def available() -> list[Gpu]:
    """Returns all GPUs. Raises `TrainerError` if there is none, or if one of them can't be used."""
    cuda = load()
    first = open_gpu(0, cuda)
    return [first, *(open_gpu(index, cuda) for index in range(1, _found(cuda, 0)[0]))]


def summary(cuda: Any = None) -> str:
    """Describes every GPU that `cuda` finds (default: as in `open_gpu`); the reason for one that can't be used."""
    try:
        cuda = cuda or load()
        count = _found(cuda, 0)[0]
    except TrainerError as error:
        return _not_usable(error)
    return "; ".join(_described(index, cuda) for index in range(max(1, count)))


def _described(index: int, cuda: Any) -> str:
    try:
        gpu = open_gpu(index, cuda)
    except TrainerError as error:
        return f"{device_name(index)}: {_not_usable(error)}"
    return f"{gpu.device}: {gpu.name}, {gpu.memory / 2**30:.0f} GiB, {gpu.processor}"


def _not_usable(error: TrainerError) -> str:
    return f"not usable: {error.message} ({error.found}). {error.hint}"


def device_name(index: int) -> str:
    """Returns the name of a GPU's device: `cuda`, `cuda:1`, …"""
    return f"cuda:{index}" if index else "cuda"


def load() -> Any:
    """Returns `cupy.cuda`, or the recording driver with `TRAINER_CUDA=emulated`.

    Raises:
        TrainerError: the package or the emulator is missing, or `TRAINER_CUDA` has an unknown value.
    """
    mode = os.environ.get(VARIABLE, "")
    if mode not in ("", EMULATED):
        raise TrainerError(f"{VARIABLE} has an unknown value", found=repr(mode), expected=f"{EMULATED!r}, or unset")
    return _emulated() if mode else _cupy()


def _cupy() -> Any:
    try:
        return importlib.import_module("cupy.cuda")
    except ImportError as error:
        raise TrainerError(
            "`device: cuda` needs CuPy",
            found=f"{error}".strip().partition("\n")[0],
            hint="pip install 'lucid-trainer[cuda]' (300 MB), or set `device: cpu`.",
        ) from error


def load_nccl(cuda: Any) -> Any:
    """Returns the NCCL module of CuPy's `cuda`.

    Raises:
        TrainerError: CuPy finds no NCCL.
    """
    found = getattr(cuda, "nccl", None) or importlib.import_module(f"{cuda.__name__}.nccl")
    if not found.available:
        raise TrainerError(
            "training on several GPUs needs NCCL",
            found="a CuPy that finds no NCCL",
            expected="NCCL 2.18 or later",
            hint="pip install nvidia-nccl-cu12, or train in one process.",
        )
    return found


@functools.cache
def _emulated() -> Any:
    checkout = Path(trainer.__file__).parent.parent
    try:
        module = importlib.import_module(EMULATOR)
    except ModuleNotFoundError as error:
        raise TrainerError(
            f"{VARIABLE}={EMULATED} needs the emulator, which is in the tests of trainer's repository",
            found=f"{error}; {checkout} is {'not on' if (checkout / 'tests').is_dir() else 'not a checkout, nor on'} "
            "Python's path",
            hint="Run from a checkout, with PYTHONPATH set to it.",
        ) from error
    return module.Recorder()


def _found(cuda: Any, index: int) -> tuple[int, int, Any]:
    """Returns the number of GPUs, the driver's CUDA version, and the properties of the GPU (None if it is missing).

    Raises:
        TrainerError: the driver is too old to report them, or fails.
    """
    version = 0
    try:
        version = cuda.runtime.driverGetVersion()
        count = cuda.runtime.getDeviceCount()
        return count, version, cuda.runtime.getDeviceProperties(index) if index < count else None
    except cuda.runtime.CUDARuntimeError as error:
        if error.status == _NO_DEVICE or not version:
            return 0, version, None
        if error.status == _OLD_DRIVER:
            raise _old_driver(version) from error
        raise TrainerError("NVIDIA's driver does not work", found=str(error), hint=_RESUME) from error


def _old_driver(version: int) -> TrainerError:
    return TrainerError(
        "NVIDIA's driver is too old for `device: cuda`",
        found=f"a driver for CUDA {_dotted(version)}",
        expected=f"one for CUDA {_dotted(OLDEST_DRIVER)} or later",
        hint="Update the driver, or set `device: cpu`.",
    )


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def in_bytes(count: int) -> str:
    """Formats a number of bytes for messages."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
