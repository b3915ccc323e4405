"""The recipes of texts and series: what their networks compute, step by step and at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.recipes.building import built
from trainer import TrainerError, engine
from trainer.learner import inference

MODELS = {
    "shakespeare": ("options.units=8", "options.embedding=4", "data.reader.length=9"),
    "transformer": (
        "options.width=16",
        "options.heads=2",
        "options.context=12",
        "options.shown=5",
        "data.reader.length=9",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("recipe", MODELS)
def test_a_language_model_step_by_step_is_the_model_of_the_whole_text(recipe: str) -> None:
    task = built(recipe, *MODELS[recipe])
    pipeline = task.pipeline()
    assert isinstance(pipeline, inference.TextGeneration) and len(pipeline.vocabulary) == len(task.tokens)
    tokens = np.random.default_rng(0).integers(2, len(task.tokens), (3, 7)).astype(np.int32)
    expected = task.network(engine.asarray(tokens)).numpy()
    last = []
    for pieces in ([1] * 7, [5, 1, 1]):
        state, place = pipeline.begin(3), 0
        for count in pieces:
            piece = tokens[:, place] if count == 1 else tokens[:, place : place + count]
            state, logits = pipeline.traced(state, engine.asarray(piece))
            place += count
            np.testing.assert_allclose(logits.numpy(), expected[:, place - 1], rtol=2e-4, atol=2e-5)
        last.append(logits.numpy())
    np.testing.assert_array_equal(*last)
    (sample,) = task.samples({})
    assert sample.text is not None and task.options.prompt in sample.text


def test_a_shown_text_longer_than_the_context_is_refused_before_training() -> None:
    with pytest.raises(TrainerError, match="longer than the model's context\n  found:    7 tokens of the prompt and 6"):
        built("transformer", *MODELS["transformer"], "options.shown=6")


@pytest.mark.parametrize("recipe", MODELS)
def test_characters_are_counted_whatever_a_token_is(recipe: str, tmp_path: Path) -> None:
    """So that bits per character don't depend on the unit of tokens. A word counts the space before it."""
    (tmp_path / "input.txt").write_text("one two. " * 400)
    task = built(recipe, *MODELS[recipe], f"data.root={tmp_path}", "data.reader.unit=words", "data.reader.length=7")
    batch = {name: engine.asarray(values) for name, values in task.splits.valid.batch(0, 0).items()}
    counts = task.valid_step(batch)["next"]["characters"].numpy()[batch["weight"].numpy() > 0]
    assert len(counts) and counts.shape[1] == 6
    np.testing.assert_array_equal(counts.sum(axis=1), 2 * len(" one two ."))


def test_names_do_not_depend_on_how_far_they_are_padded() -> None:
    task = built("names", "options.units=6", "options.embedding=4")
    network = task.pipeline().network
    tokens, lengths = np.random.default_rng(0).integers(2, 20, (2, 6)).astype(np.int32), np.array([6, 3])
    tokens[1, 3:] = 0
    wide = np.pad(tokens, [(0, 0), (0, 5)])
    found = [network(engine.asarray(each), engine.asarray(lengths))["logits"].numpy() for each in (tokens, wide)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    assert len(task.class_names) == 18 and np.ptp(found[0]) > 0


def test_samples_of_names_are_texts_whatever_a_token_is(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"two {name}s\n" * 10, encoding="utf-8")
    keys = (f"data.root={tmp_path}", "data.reader={name: text_classes, unit: words}", "options.units=3")
    task = built("names", *keys, "metrics.valid=[]", "checkpoint.best=null")
    batch = {name: engine.asarray(values) for name, values in task.splits.train.batch(0, 0).items()}
    (sample,) = task.samples(batch)
    assert sample.text is not None and {line[:6] for line in sample.text.splitlines()} == {"two as", "two bs"}


def test_forecasts_are_in_the_units_of_the_table() -> None:
    task = built("forecast", "options.units=4")
    dataset = task.splits.test.dataset
    batch = {name: engine.asarray(values) for name, values in dataset.take(np.arange(4)).items()}
    loss, values = task.measure({**batch, "weight": engine.ones(4)})
    table = dataset.scaling.unscale(dataset.take(np.arange(4))["future"])
    np.testing.assert_allclose(values["target"].numpy(), table, rtol=1e-5, atol=1e-4)
    assert float(loss.value) > 0 and len(task.samples(batch)) == 4


def test_the_sums_are_those_of_the_marked_numbers() -> None:
    task = built("adding", "options.sequences=6", "options.held_out=4", "options.length=12", "options.units=5")
    found: dict[str, Any] = task.splits.train.batch(0, 0)
    sequence = found["sequence"][: len(found["value"])]
    marks = sequence[..., 1] > 0
    assert (marks[:, :6].sum(axis=1) == 1).all() and (marks[:, 6:].sum(axis=1) == 1).all()
    np.testing.assert_allclose((sequence[..., 0] * marks).sum(axis=1), found["value"], rtol=1e-6)
    assert not np.array_equal(sequence[0], task.splits.valid.batch(0, 0)["sequence"][0])
    np.testing.assert_array_equal(task.network.recurrent.numpy(), np.eye(5))
