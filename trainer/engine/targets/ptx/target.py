"""The target of NVIDIA GPUs: the interface of the shared passes, and the way from a graph to launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.engine.graph.node import Node
from trainer.engine.graph.simplify import simplify
from trainer.engine.graph.storage import Layout
from trainer.engine.program.build import Request, build
from trainer.engine.program.legalize import legalize
from trainer.engine.program.partition import Policy
from trainer.engine.program.target import Features
from trainer.engine.program.work import Buffer, Work
from trainer.engine.targets.ptx.assembly import PROCESSOR, assembled
from trainer.engine.targets.ptx.launch import Launch
from trainer.engine.targets.ptx.lowering.lower import lower


@dataclass
class Lowered:
    """Launches in order, and where results end up (one buffer and layout for each result)."""

    launches: list[Launch]
    results: list[Buffer]
    layouts: list[Layout]


@dataclass(frozen=True)
class PtxTarget:
    """A processor that kernels are made for, by its name in PTX ("sm_90a").

    With `flush` subnormal float32 numbers count as zeros, as traced programs have it.
    """

    processor: str = PROCESSOR
    flush: bool = False
    features: Features = field(default=Features())

    def legal(self, outputs: Sequence[Node]) -> list[Node]:
        """The graph as the kernels take it."""
        return legalize(simplify(outputs), self.features.wide_groups)

    def takes_prologue(self, node: Node) -> bool:
        """No kernel computes element-wise work on its input yet."""
        return False

    def statistics(self, convolution: Work, reduction: Work) -> None:
        """A convolution and the statistics of its result stay two items."""

    def lower(self, request: Request, policy: Policy | None = None) -> Lowered:
        """The launches of a graph. Raises `TrainerError` for an operation that has no kernel yet."""
        program = build(request, policy or Policy(), self)
        launches = [launch for work in program.works for launch in lower(work, flush=self.flush)]
        return Lowered(launches, program.results, program.layouts)

    def assembled(self, launch: Launch, name: str = "kernel") -> str:
        """The PTX of a launch's kernel."""
        return assembled(launch.source.render(name), self.processor)
