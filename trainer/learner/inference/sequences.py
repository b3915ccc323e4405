"""The inference of tasks on texts and time series: from a prompt to a text, from a text to a class, from the last rows
of a table to the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from trainer import TrainerError, engine
from trainer.datasets import Scaling, Vocabulary
from trainer.learner.generation import PIECE, Sampling, generate, take_rows
from trainer.learner.samples import Sample

if TYPE_CHECKING:
    from trainer.engine import Tensor

SequenceKind = Literal["text", "text_classification", "forecast"]


@dataclass(frozen=True)
class TextGeneration:
    """Continues a prompt.

    Attributes:
        vocabulary: its tokens.
        begin: the state before the first token, for a number of rows: arrays with the rows as their first axis, in any
            nesting of mappings, lists and tuples.
        step: (state, tokens int32 [B]) to (next state, logits [B, V]). A pure function of the task's modules, to be
            traced, as are the next two.
        read: the same for tokens int32 [B, T], with the logits after the last one: for the prompt, in pieces of `PIECE`
            tokens. None: the prompt takes a step per token.
        network: logits [B, L, V] of the token that follows each of the tokens int32 [B, L] of whole texts, used to
            evaluate an exported model. None: an exported model can't be evaluated.
        reorder: (state, indices of rows) to the state with these rows, for beam search.
        capacity: maximum number of tokens, including the prompt; None: unlimited.
    """

    kind: ClassVar[SequenceKind] = "text"
    class_names: ClassVar[tuple[str, ...]] = ()

    vocabulary: Vocabulary
    begin: Callable[[int], Any]
    step: Callable[[Any, Tensor], tuple[Any, Tensor]]
    reorder: Callable[[Any, np.ndarray], Any] = take_rows
    capacity: int | None = None
    read: Callable[[Any, Tensor], tuple[Any, Tensor]] | None = None
    network: Callable[[Tensor], Tensor] | None = None

    @cached_property
    def traced(self) -> Callable[[Any, np.ndarray], tuple[Any, Tensor]]:
        """`advance`, traced."""
        return engine.trace(lambda state, tokens: self.advance(state, tokens))

    def advance(self, state: Any, tokens: Tensor) -> tuple[Any, Tensor]:
        """`step` with tokens [B], `read` with tokens [B, T]."""
        if tokens.ndim == 1:
            return self.step(state, tokens)
        assert self.read is not None
        return self.read(state, tokens)

    @property
    def piece(self) -> int:
        """Number of tokens of a prompt that `advance` takes at once."""
        return PIECE if self.read is not None else 1

    def check_capacity(self, prompt: int, tokens: int) -> None:
        """Raises `TrainerError` if a prompt and a continuation of these numbers of tokens exceed the capacity."""
        if self.capacity is not None and prompt + tokens > self.capacity:
            raise TrainerError(
                "the text is longer than the model's context", found=f"{prompt} tokens of the prompt and {tokens}",
                expected=f"at most {self.capacity}",
            )  # fmt: skip

    def sample(
        self, name: str, prompt: Sequence[int], tokens: int = 200, sampling: Sampling = Sampling(),  # noqa: B008 - frozen
    ) -> Sample:  # fmt: skip
        """A sample of a task: the continuation of a prompt, given as tokens, with the current weights. The padding and
        unknown tokens are not drawn.

        Raises:
            TrainerError: the prompt and `tokens` exceed the capacity.
        """
        self.check_capacity(len(prompt), tokens)
        vocabulary = self.vocabulary
        chosen = replace(sampling, exclude=(*sampling.exclude, *vocabulary.not_text))
        found = generate(
            self.traced, self.begin(1), prompt, tokens, sampling=chosen, end=vocabulary.end, piece=self.piece
        )
        start = vocabulary.decode(prompt)
        return Sample(name, text=start + vocabulary.decode(found), prompt=len(start))


@dataclass(frozen=True)
class TextClassification:
    """Classifies a text.

    Attributes:
        class_names: class names in the order of the labels.
        vocabulary: its tokens.
        network: {"logits": [N, classes]} of tokens int32 [N, L], padded with 0, and their lengths int64 [N]. A pure
            function of the task's modules, to be traced.
        lengths: the lengths to which texts are padded, in increasing order; longer texts, and all texts if this is
            empty, are padded to the next power of two.
    """

    kind: ClassVar[SequenceKind] = "text_classification"

    class_names: tuple[str, ...]
    vocabulary: Vocabulary
    network: Callable[[Tensor, Tensor], Mapping[str, Tensor]]
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Forecasting:
    """Forecasts the rows of a table that follow its last ones.

    Attributes:
        scaling: of the columns that the network receives.
        targets: number of columns to forecast, the first ones.
        input_length: number of rows that the network receives.
        network: scaled future [N, forecast_length, targets] of scaled history float32 [N, input_length, columns]. A
            pure function of the task's modules, to be traced.
        date: name of the time column; None: no time column.
    """

    kind: ClassVar[SequenceKind] = "forecast"
    class_names: ClassVar[tuple[str, ...]] = ()

    scaling: Scaling
    targets: int
    input_length: int
    network: Callable[[Tensor], Tensor]
    date: str | None = None


SequencePipeline = TextGeneration | TextClassification | Forecasting
