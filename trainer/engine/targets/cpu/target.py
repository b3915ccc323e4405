"""The CPU as a target: its interface for the shared passes, and the whole way from a graph to launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from trainer.engine.graph.node import Node
from trainer.engine.graph.simplify import simplify
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.build import Request, build
from trainer.engine.program.constants import constant_first
from trainer.engine.program.contractions import contracted
from trainer.engine.program.legalize import legalize
from trainer.engine.program.merge import merged
from trainer.engine.program.partition import Policy
from trainer.engine.program.plan import MemoryPlan
from trainer.engine.program.row_chains import chained
from trainer.engine.program.schedule import hosts_first, schedule
from trainer.engine.program.statistics import with_statistics
from trainer.engine.program.target import Features
from trainer.engine.program.work import Buffer, Pass, Work
from trainer.engine.targets.cpu import defaults, templates
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction
from trainer.engine.targets.cpu.lowering.contraction import specification
from trainer.engine.targets.cpu.lowering.expand import expand
from trainer.engine.targets.cpu.lowering.expansion import Bfloat16, Numerics
from trainer.engine.targets.cpu.lowering.launch import Launch, Templated
from trainer.engine.targets.cpu.lowering.loops import kernel_of, words_of_pass
from trainer.engine.targets.cpu.lowering.lower import lower
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.pool import SCRATCH_BYTES
from trainer.engine.targets.cpu.templates.depthwise import SMALL_GROUPS
from trainer.engine.targets.cpu.templates.statistics import StatisticsSpec, is_possible


@dataclass(frozen=True, slots=True)
class Placement:
    """The memory plan, and for each launch whether all threads meet before it."""

    memory: MemoryPlan
    waits: tuple[bool, ...]


@dataclass
class Lowered:
    """Launches in order, and where results end up (one buffer and layout for each result).

    The first `constant` launches need to run again only when a state that they read was written.
    """

    launches: list[Launch]
    constant: int
    results: list[Buffer]
    layouts: list[Layout]
    placement: Placement | None = None
    """Where its program has placed buffers and barriers."""


@dataclass(frozen=True)
class CpuTarget:
    """A machine and the numerics classes that programs are lowered in.

    With `per_item` an image's bits in "fast" do not depend on how many there are in a batch.
    """

    machine: Machine
    numerics: Numerics = "exact"
    bfloat16: Bfloat16 = "pairs"
    per_item: bool = False
    features: Features = field(default=Features(scratch_bytes=SCRATCH_BYTES, wide_groups=SMALL_GROUPS))

    def legal(self, outputs: Sequence[Node]) -> list[Node]:
        """Simplified, with convolutions that were written out, and sums of narrow types in wide ones."""
        return legalize(contracted(simplify(outputs)), self.features.wide_groups)

    def lower(
        self, request: Request, policy: Policy, choose: Callable[[Any], Any] | None = None,
        progress: Callable[[int, int, str], None] | None = None, varying: Set[Storage] | None = None,
    ) -> Lowered:  # fmt: skip
        """The launches of a graph; `choose` picks the parameters of each template, by default the cost model. With
        `varying`, the memories whose values differ from run to run, what depends on none of them is computed once.

        `progress` is called before each launch is planned; how many kernels there will be is not known yet: 0.
        """
        choose = choose or (lambda spec: defaults.choose(spec, self.machine))
        if self.numerics == "fast":
            policy = replace(policy, prologues=False)  # Winograd's kernels transform their input as it lies
        program = build(request, policy, self)
        works = expand(program.works, self.machine, self.numerics, self.bfloat16, per_item=self.per_item)
        constant, works = ([], works) if varying is None else constant_first(works, varying)
        constant = merged(constant, self.features)
        works = schedule(works, self.features, lambda work: lower(work, choose).tasks <= 1)
        works = merged(chained(with_statistics(works, self), self.features), self.features)
        works, launches = [*constant, *hosts_first(works)], []
        for number, work in enumerate(works):
            if progress is not None:
                progress(0, 0, f"planning {number} of {len(works)}")
            launches.append(lower(work, choose))
        return Lowered(launches, len(constant), program.results, program.layouts)

    def takes_prologue(self, node: Node) -> bool:
        """Whether a convolution, or a weight gradient, computes element-wise work on its input rather than read it."""
        forward = node.name == "convolution"
        weights = node.inputs[1].shape if forward else node.shape
        direction: Direction = "forward" if forward else "weight_gradient"
        return defaults.takes_prologue(specification(node, direction, node.inputs[0].shape, weights))

    def statistics(self, convolution: Work, reduction: Work) -> Templated | None:
        """A convolution and a reduction over all pixels that it wrote as one kernel, or None."""
        spec = convolution.spec.spec if isinstance(convolution.spec, Templated) else None
        if not isinstance(spec, ConvolutionSpec) or not is_possible(spec):
            return None
        own: Pass = reduction.spec
        if own.orientation != "column" or len(reduction.extents) != 2 or len(reduction.reads) != 1:
            return None
        source, pixels = reduction.reads[0], convolution.writes[0].size // spec.filters
        lies = source.strides == (spec.filters, 1) and not source.offset
        if source.buffer is not convolution.writes[0].buffer or not lies:
            return None
        if reduction.extents != (pixels, spec.filters):
            return None
        return Templated(templates.STATISTICS, StatisticsSpec(spec, kernel_of(reduction), words_of_pass(reduction)))
