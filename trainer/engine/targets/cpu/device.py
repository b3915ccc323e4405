"""The `cpu` device: compiles graphs to native programs and runs them on the thread pool."""

from __future__ import annotations

import functools
import operator
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from trainer import TrainerError
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.signature import signature
from trainer.engine.graph.storage import Storage
from trainer.engine.program.build import Request
from trainer.engine.program.partition import Policy
from trainer.engine.program.state_layouts import settle_layouts
from trainer.engine.targets import Device, Run, is_per_item
from trainer.engine.targets.cpu import choices, describe, native, plans
from trainer.engine.targets.cpu.arena import Arena
from trainer.engine.targets.cpu.executable import Program, ProgramTuner
from trainer.engine.targets.cpu.loaded_kernels import Kernels, Progress
from trainer.engine.targets.cpu.lowering.expansion import Bfloat16, Numerics
from trainer.engine.targets.cpu.machine import NARROW, Machine, for_threads, host_machine
from trainer.engine.targets.cpu.plans import Choices, Graph
from trainer.engine.targets.cpu.poison import poisoned
from trainer.engine.targets.cpu.pool import Pool, shared_pool
from trainer.engine.targets.cpu.recording import Recording
from trainer.engine.targets.cpu.target import CpuTarget, Lowered
from trainer.engine.targets.eager import CACHED_PROGRAMS, EagerProgram

POISON_VARIABLE = "TRAINER_POISON"
_ADDRESS = operator.attrgetter("address")


class CpuDevice(Device):
    """Compiled programs, kernels and memory of the host's processor.

    `poison` fills memory with NaN when its buffer has ended; `narrow` compiles for 256-bit vectors; `choose` picks the
    parameters of each template that `tuner` has not decided. All settings give the same bits, except for the classes
    that define how sums are formed: `numerics` is "exact", or "fast", which may use Winograd's algorithm; `bfloat16` is
    "pairs", or "tiles" for the order of AMX.

    Raises:
        TrainerError: the processor lacks a feature that every kernel needs, or AMX for "tiles"; or a class is unknown.
    """

    name = "cpu"

    def __init__(
        self, *, threads: int | None = None, policy: Policy | None = None, poison: bool | None = None,
        narrow: bool = False, choose: Callable[[Any], Any] | None = None, numerics: Numerics = "exact",
        bfloat16: Bfloat16 = "pairs",
    ) -> None:  # fmt: skip
        native.check_host()
        self.pool: Pool = shared_pool() if threads is None else Pool(threads)
        self.policy = policy or Policy()
        if numerics not in ("exact", "fast"):
            raise TrainerError("unknown numerics class", found=repr(numerics), expected="'exact' or 'fast'")
        machine = for_threads(NARROW if narrow else host_machine(), self.pool.threads)
        _check_bfloat16(bfloat16, machine)
        self._model = functools.partial(choices.choose, machine=machine)
        self._choose = choose or self._model
        self.target = CpuTarget(machine, numerics, bfloat16)
        self.poison = os.environ.get(POISON_VARIABLE) == "1" if poison is None else poison
        self.recording: Recording | None = None
        self.tuner: ProgramTuner | None = None
        self.arena = Arena()
        self.kernels = Kernels(native.host_target(narrow))
        self._programs: OrderedDict[Any, EagerProgram] = OrderedDict()

    @contextmanager
    def recorded(self) -> Iterator[Recording]:
        """Records when each thread begins and ends each launch of the programs that run inside the `with` block."""
        if self.recording is not None:
            raise refusal("profile", "the device is being profiled already")
        with self.pool.lock:
            self.recording = Recording(self.pool)
        try:
            yield self.recording
        finally:
            self.recording = None

    # Programs

    def compile(
        self, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]] = (), inputs: Sequence[Node] = (), *,
        flush: bool = False, progress: Progress | None = None, shards: int | None = None,
        split: Collection[Storage] = (),
    ) -> Program:  # fmt: skip
        """Compiles a program for `results` that stores `updates` in place; each run takes the addresses of `inputs`."""
        with self.pool.lock:
            began, compiled, cached = time.perf_counter(), *native.object_counts()
            target, graph = replace(self.target, per_item=is_per_item() or shards is not None), None
            choose, is_modelled = Choices(self.choose), self._choose is self._model and self.tuner is None
            if flush and shards is None and not self.poison:
                circumstances = target, self.policy, is_modelled, self.kernels.target.key
                graph = Graph.of(results, updates, inputs, *circumstances)
            lowered = plans.kept(graph, None if is_modelled else self.choose) if graph else None
            is_new = lowered is None
            if lowered is None:
                lowered = self._lower(target, results, updates, inputs, flush, shards, split, progress, choose)
            if self.poison:
                lowered.launches = poisoned(lowered.launches)
            kernels = self.kernels.of(lowered.launches, progress)
            program = Program(self, lowered, kernels, inputs, [node.shape for node in results], flush=flush)
            if graph and is_new:
                plans.keep(graph, lowered, choose)
            now_compiled, now_cached = native.object_counts()
            spent = 1000 * (time.perf_counter() - began)
            program.compilation = describe.Compilation(now_compiled - compiled, now_cached - cached, spent)
            describe.report(program)
            if flush and self.tuner is not None:
                self.tuner.adopt(program)
            return program

    def _lower(
        self, target: CpuTarget, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]],
        inputs: Sequence[Node], flush: bool, shards: int | None, split: Collection[Storage],
        progress: Progress | None, choose: Callable[[Any], Any],
    ) -> Lowered:  # fmt: skip
        """Lowers a graph to launches with all passes, and settles the layouts of its states."""
        outputs = target.legal([*results, *(node for _, node in updates)])
        values, targets = outputs[: len(results)], outputs[len(results) :]
        news = [(storage, node) for (storage, _), node in zip(updates, targets, strict=True)]
        if updates or flush:
            settle_layouts(topological(outputs), news)
        varying = {*(node.attributes[0] for node in inputs), *dict(updates)} if flush else None
        request = Request(tuple(values), tuple(news), shards, frozenset(split))
        return target.lower(request, self.policy, choose, progress, varying)

    def choose(self, spec: Any) -> Any:
        """Returns the parameters of a template to begin with: from tuning, or else from the cost model."""
        return self._choose(spec) if self.tuner is None else self.tuner.choose(spec, self._choose)

    def problem_of(self, source: str, name: str, pointers: int) -> str | None:
        return native.problem_of(source, name, pointers)

    def evaluate(self, nodes: Sequence[Node]) -> Run:
        """Computes the values of `nodes` now; equal graphs share a compiled program."""
        key, arguments = signature(nodes)
        key = key, is_per_item()
        with self.pool.lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = EagerProgram(
                    nodes, arguments, lambda outputs, inputs: self.compile(outputs, inputs=inputs), _ADDRESS
                )
                if len(self._programs) > CACHED_PROGRAMS:
                    self._programs.popitem(last=False)
            else:
                self._programs.move_to_end(key)
            return program.run(arguments)


def _check_bfloat16(bfloat16: Bfloat16, machine: Machine) -> None:
    """Raises TrainerError if the class is unknown or the machine does not support it."""
    if bfloat16 not in ("pairs", "tiles"):
        raise TrainerError("unknown class of bfloat16 sums", found=repr(bfloat16), expected="'pairs' or 'tiles'")
    if bfloat16 == "tiles" and not machine.bfloat16_tiles:
        raise TrainerError(
            "bfloat16 can't be summed by tiles here",
            found="no AMX for bfloat16 that kernels may use",
            expected="a processor with AMX (Intel Xeon since 2023) under Linux 5.16 or later",
            hint="bfloat16: pairs runs on every processor. A run that began with tiles can only continue with tiles.",
        )
