"""Exported models of texts: a long prompt is read in pieces, by a program of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import trainer
from tests.learner.exported.sequence_models import WORDS, text, written_sequence
from trainer import engine
from trainer.learner.generation import PIECE, read_prompt


def test_a_prompt_longer_than_a_piece_gives_the_logits_of_the_pipeline(tmp_path: Path) -> None:
    written_sequence(tmp_path / "text.model", "text")
    pipelines = [text(), trainer.load_model(tmp_path / "text.model").declared]
    prompt = np.random.default_rng(0).integers(2, len(WORDS), PIECE + 3)
    shapes, found = [], []
    for pipeline in pipelines:
        assert pipeline.piece == PIECE

        def step(state, tokens, pipeline=pipeline):
            shapes.append(tokens.shape)
            return pipeline.advance(state, engine.asarray(tokens))

        _, logits = read_prompt(step, pipeline.begin(2), prompt.tolist(), rows=2, piece=pipeline.piece)
        found.append(logits.numpy())
    assert shapes == [(2, PIECE), (2,), (2,), (2,)] * 2
    np.testing.assert_array_equal(*found)
