"""Small models of texts and series with random weights, one of each kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.learner.exported.models import CARD, EXACT
from trainer import engine
from trainer.datasets import Scaling, Vocabulary
from trainer.engine import Tensor
from trainer.learner import inference
from trainer.learner.exported.sequences import write_sequence
from trainer.learner.inference.sequences import SequencePipeline

WORDS = Vocabulary("characters", ["<padding>", "<unknown>", *"abcd"])
EVALUATION = {
    "data": {
        "reader": {"name": "text", "file": "a.txt", "length": 5}, "batch_size": 4, "valid_batch_size": None,
        "max_objects": None, "max_tokens": None, "scaled_decoding": True,
    },
    "metrics": [{"name": "perplexity"}],
}  # fmt: skip


def weights(*shape: int) -> Tensor:
    return engine.asarray(np.random.default_rng(1).normal(size=shape).astype(np.float32))


def text() -> SequencePipeline:
    table = weights(6, 6)

    def read(state: dict[str, Tensor], tokens: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        mean = state["mean"] * 0.5 + engine.mean(engine.take(table, tokens, axis=0), axis=1)
        return {"mean": mean}, mean

    return inference.TextGeneration(
        WORDS,
        begin=lambda rows: {"mean": engine.zeros((rows, 6))},
        step=lambda state, tokens: read(state, engine.expand_dims(tokens, axis=1)),
        read=read,
        network=lambda tokens: engine.take(table, tokens, axis=0),
        capacity=90,
    )


def text_classification() -> SequencePipeline:
    table = weights(6, 2)

    def network(tokens: Tensor, length: Tensor) -> dict[str, Tensor]:
        total = engine.sum(engine.take(table, tokens, axis=0), axis=1)
        return {"logits": total / engine.expand_dims(length, axis=1).astype(engine.float32)}

    return inference.TextClassification(("cat", "dog"), WORDS, network, lengths=(4, 8))


def forecast() -> SequencePipeline:
    table = weights(5, 3)
    return inference.Forecasting(
        Scaling(("sold", "price"), (3.0, 1.0), (2.0, 1.0)), 1, 5,
        network=lambda history: engine.expand_dims(history[:, :, 0] @ table, axis=2), date="month",
    )  # fmt: skip


SEQUENCES = {each.__name__: each for each in (text, text_classification, forecast)}


def written_sequence(path: Path, kind: str) -> None:
    """Write the model of a kind."""
    write_sequence(path, SEQUENCES[kind](), numerics=EXACT, card=CARD, evaluation=EVALUATION, precision="float32")
