"""The `cuda` device: compiles graphs to kernels of the target `ptx` and runs them on an NVIDIA GPU.

Runs are asynchronous: reading a value waits for its run and raises the run's error.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, get_args

from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.signature import signature
from trainer.engine.graph.storage import Storage
from trainer.engine.program.build import Request
from trainer.engine.program.state_layouts import settle_layouts
from trainer.engine.program.work import KernelSource
from trainer.engine.targets import Device, Run
from trainer.engine.targets.cuda.driver import open_gpu
from trainer.engine.targets.cuda.exchange import Messages, NcclExchange
from trainer.engine.targets.cuda.memory import Allocation, CudaMemory
from trainer.engine.targets.cuda.program import Program, Step
from trainer.engine.targets.eager import CACHED_PROGRAMS, EagerProgram
from trainer.engine.targets.ptx.launch import Launch
from trainer.engine.targets.ptx.lowering.products import Precision
from trainer.engine.targets.ptx.target import PtxTarget

MOST_DYNAMIC_SHARED_BYTES = 8
"""CUDA's number of the kernel attribute without which a launch is limited to 48 KiB of dynamic shared memory."""

CACHED_KERNELS = 4096
"""Maximum number of loaded kernels; the least recently used are unloaded first."""


class CudaDevice(Device):
    """Kernels, streams and memory of one GPU; `cuda` replaces CuPy's module of this name. `numerics`: "exact", or
    "fast", which multiplies 16-bit floats and float32 (rounded to TF32) on tensor cores.

    Raises:
        TrainerError: the GPU, its driver or CuPy is missing or too old.
    """

    is_asynchronous = True
    has_host_functions = False

    def __init__(self, index: int = 0, cuda: Any = None, *, numerics: Literal["exact", "fast"] = "exact") -> None:
        gpu = open_gpu(index, cuda)
        self.gpu, self.name = gpu, gpu.device
        self.memory: CudaMemory = CudaMemory(gpu)
        self.lock = threading.RLock()
        self._tensor_cores: tuple[Precision, ...] = get_args(Precision) if numerics == "fast" else ()
        self._arena: Allocation | None = None
        self._functions: OrderedDict[KernelSource, Any] = OrderedDict()
        self._programs: OrderedDict[Any, EagerProgram] = OrderedDict()

    def arena(self, size: int) -> int:
        """Returns the address of at least `size` bytes for values between launches, which all programs share."""
        if self._arena is None or self._arena.nbytes < size:
            self._arena = None  # free the old memory first: its pending work precedes the work on memory that reuses it
            self._arena = self.memory.take(size, "values between kernels")
        return self._arena.address

    def compile(
        self, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]] = (), inputs: Sequence[Node] = (), *,
        flush: bool = False, progress: Callable[[int, int, str], None] | None = None, shards: int | None = None,
        split: Collection[Storage] = (),
    ) -> Step:  # fmt: skip
        """Returns a program for `results` that stores `updates` in place, as one CUDA graph.

        Raises:
            TrainerError: an operation has no kernel for GPUs.
        """
        with self.lock:
            return self._compiled(Step, results, updates, inputs, flush, progress, shards, split)

    def evaluate(self, nodes: Sequence[Node]) -> Run:
        """Returns the values of `nodes`; equal graphs share a compiled program."""
        key, arguments = signature(nodes)
        with self.lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = EagerProgram(nodes, arguments, self._eager, self._address)
                if len(self._programs) > CACHED_PROGRAMS:
                    self._programs.popitem(last=False)
            else:
                self._programs.move_to_end(key)
            return program.run(arguments)

    def exchange(self, messages: Messages) -> NcclExchange:
        """Returns the exchange that sums over the GPUs of several processes with NCCL.

        Raises:
            TrainerError: CuPy has no NCCL, or the processes have different GPUs.
        """
        return NcclExchange(self.memory, messages, self._flushing)

    def _eager(self, outputs: Sequence[Node], inputs: Sequence[Node]) -> Program:
        return self._compiled(Program, outputs, (), inputs, False)

    def _flushing(self, outputs: Sequence[Node], inputs: Sequence[Node]) -> Program:
        return self._compiled(Program, outputs, (), inputs, True)

    def _address(self, storage: Storage) -> int:
        """Moves a storage to the GPU's memory and returns the address of its elements."""
        storage.move(self.memory)
        return int(storage.block.address)

    def _compiled(
        self, kind: type[Any], results: Sequence[Node], updates: Sequence[tuple[Storage, Node]],
        inputs: Sequence[Node], flush: bool, progress: Callable[[int, int, str], None] | None = None,
        shards: int | None = None, split: Collection[Storage] = (),
    ) -> Any:  # fmt: skip
        target = PtxTarget(self.gpu.processor, flush, self._tensor_cores)
        outputs = target.legal([*results, *(node for _, node in updates)])
        values, news = outputs[: len(results)], outputs[len(results) :]
        stored = [(storage, node) for (storage, _), node in zip(updates, news, strict=True)]
        if updates or flush:
            settle_layouts(topological(outputs), stored)
        lowered = target.lower(Request(tuple(values), tuple(stored), shards, frozenset(split)))
        functions = self._loaded(target, lowered.launches, progress)
        return kind(self, lowered, functions, inputs, [node.shape for node in results], flush=flush)

    def _loaded(
        self, target: PtxTarget, launches: Sequence[Launch], progress: Callable[[int, int, str], None] | None
    ) -> list[Any]:
        """Returns the kernel of each launch; loads missing ones."""
        missing = {launch.source: launch for launch in launches if launch.source not in self._functions}
        for done, (source, launch) in enumerate(missing.items()):
            if progress is not None:
                progress(done, len(missing), launch.label)
            text = target.assembled(launch)
            with self.gpu.used(f"loading the kernel of {launch.label}", self.memory.held) as cuda:
                module = cuda.function.Module()
                module.load(text.encode())
                function = self._functions[source] = module.get_function("kernel")
                if launch.shared:
                    cuda.driver.funcSetAttribute(function.ptr, MOST_DYNAMIC_SHARED_BYTES, launch.shared)
        if progress is not None:
            progress(len(missing), len(missing), "")
        found = [self._functions[launch.source] for launch in launches]
        for launch in launches:
            self._functions.move_to_end(launch.source)
        while len(self._functions) > CACHED_KERNELS:
            self._functions.popitem(last=False)
        return found
