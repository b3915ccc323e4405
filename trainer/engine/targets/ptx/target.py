"""The target for NVIDIA GPUs: implements the interface of the shared passes and lowers a graph to launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.engine.graph.node import Node
from trainer.engine.graph.simplify import simplify
from trainer.engine.graph.storage import Layout
from trainer.engine.program.build import Request, build
from trainer.engine.program.decompose import decomposed
from trainer.engine.program.legalize import legalize
from trainer.engine.program.partition import Policy
from trainer.engine.program.target import Features
from trainer.engine.program.work import Buffer, Work
from trainer.engine.targets.ptx.assembly import PROCESSOR, assembled
from trainer.engine.targets.ptx.launch import Launch
from trainer.engine.targets.ptx.lowering.lower import Lowering
from trainer.engine.targets.ptx.lowering.products import Precision, takes_prologue


@dataclass
class Lowered:
    """Launches in order, and one buffer and layout for each result."""

    launches: list[Launch]
    results: list[Buffer]
    layouts: list[Layout]


@dataclass(frozen=True)
class PtxTarget:
    """A target processor, by its name in PTX ("sm_90a").

    With `flush` subnormal float32 numbers are treated as zeros, as in traced programs. `tensor_cores` names the
    operands of products that tensor cores multiply: "bfloat16", "float16", and "tf32" for float32, which is rounded to
    10 bits of fraction. All other products are exact.
    """

    processor: str = PROCESSOR
    flush: bool = False
    tensor_cores: tuple[Precision, ...] = ()
    features: Features = field(default=Features())

    def legal(self, outputs: Sequence[Node]) -> list[Node]:
        """Returns the graph in the form that the kernels support."""
        return legalize(simplify(decomposed(outputs)), pairs=False)

    def takes_prologue(self, node: Node) -> bool:
        """Whether a product computes its first operand in a prologue, and gains from it."""
        return takes_prologue(node)

    def statistics(self, convolution: Work, reduction: Work) -> None:
        """Returns None: a convolution and the statistics of its result stay two items."""

    def lower(self, request: Request, policy: Policy | None = None) -> Lowered:
        """Lowers a graph to launches. Raises `TrainerError` for an operation that has no kernel."""
        program = build(request, policy or Policy(), self)
        launches = Lowering(self.flush, self.tensor_cores).launches(program.works)
        return Lowered(launches, program.results, program.layouts)

    def assembled(self, launch: Launch, name: str = "kernel") -> str:
        """Returns the PTX of a launch's kernel."""
        return assembled(launch.source.render(name), self.processor)
