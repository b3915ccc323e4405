"""The CPU as a target: its interface for the shared passes, and the lowering of a graph to launches."""

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
    """The memory plan, and for each launch, whether all threads meet before it."""

    memory: MemoryPlan
    waits: tuple[bool, ...]


@dataclass
class Lowered:
    """Launches in order, and the buffer and layout of each result.

    The first `constant` launches need to run again only if a state that they read has been written.
    """

    launches: list[Launch]
    constant: int
    results: list[Buffer]
    layouts: list[Layout]
    placement: Placement | None = None
    """The placement of buffers and barriers, set when a program is created."""


@dataclass(frozen=True)
class CpuTarget:
    """A machine, and the numerics classes of lowered programs.

    With `per_item`, the bits of an image in "fast" do not depend on the number of images in a batch.
    """

    machine: Machine
    numerics: Numerics = "exact"
    bfloat16: Bfloat16 = "pairs"
    per_item: bool = False
    features: Features = field(default=Features(scratch_bytes=SCRATCH_BYTES, wide_groups=SMALL_GROUPS))

    def legal(self, outputs: Sequence[Node]) -> list[Node]:
        """Returns simplified outputs, with written-out convolutions replaced and sums of narrow types in wide ones."""
        return legalize(contracted(simplify(outputs)), self.features.wide_groups)

    def lower(
        self, request: Request, policy: Policy, choose: Callable[[Any], Any] | None = None,
        progress: Callable[[int, int, str], None] | None = None, varying: Set[Storage] | None = None,
    ) -> Lowered:  # fmt: skip
        """Lowers a graph to launches; `choose` picks the parameters of each template, by default with the cost model.
        With `varying`, the storages whose values differ between runs, items that depend on none of them run only once.

        `progress` is called before each launch is planned, with 0 kernels: their number is not known yet.
        """
        choose = choose or (lambda spec: defaults.choose(spec, self.machine))
        if self.numerics == "fast":
            policy = replace(policy, prologues=False)  # Winograd's kernels apply no prologue
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
        """Whether a convolution, or a weight gradient, applies element-wise work to its input while reading it."""
        forward = node.name == "convolution"
        weights = node.inputs[1].shape if forward else node.shape
        direction: Direction = "forward" if forward else "weight_gradient"
        return defaults.takes_prologue(specification(node, direction, node.inputs[0].shape, weights))

    def statistics(self, convolution: Work, reduction: Work) -> Templated | None:
        """Returns a convolution and a reduction over all pixels that it writes as one kernel, or None."""
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
