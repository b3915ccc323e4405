"""The digits recipe: its splits, that it learns, and that its folder works anywhere."""

from __future__ import annotations

import gzip
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.configs import Loaded, RecipeIndex, load
from trainer.learner import Learner, Outcome, Plan, Task
from trainer.rundir import Event, MetricEvent

pytestmark = pytest.mark.usefixtures("on_the_reference_device")


def task_class(loaded: Loaded) -> Any:
    return loaded.task.import_module().Digits


def make_task(*overrides: str, target: str = "digits") -> Task:
    loaded = load(target, overrides)
    return task_class(loaded)(loaded.config, loaded.options)


def idx(array: np.ndarray) -> bytes:
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def test_the_splits_are_the_stated_parts_of_the_data() -> None:
    splits = make_task("data.batch_size=100").data()
    assert splits.valid is not None and splits.test is not None
    assert [len(part.dataset) for part in (splits.train, splits.valid, splits.test)] == [8000, 500, 1500]
    folder = RecipeIndex.built_in().folder("digits") / "data"
    images = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    pixels = np.frombuffer(images, np.uint8).reshape(10_000, 1, 28, 28)
    test = splits.test.batch(0, 0)
    np.testing.assert_array_equal(test["image"], pixels[8500 : 8500 + len(test["image"])])
    assert test["label"].tolist() == list(labels[8500 : 8500 + len(test["label"])])
    assert sum(batch["weight"].sum() for batch in splits.test.epoch(0)) == 1500
    train = splits.train.batch(0, 0)
    assert train["image"].shape == (100, 1, 28, 28) and train["image"].dtype == np.uint8


def train(*overrides: str) -> tuple[Outcome, list[float]]:
    """The outcome of a run without a run directory, and the training losses that it told of."""
    losses: list[float] = []

    def sink(event: Event) -> None:
        if isinstance(event, MetricEvent) and event.split == "train":
            losses.append(event.values["loss"])

    loaded = load("digits", overrides)
    outcome = Learner(task_class(loaded), loaded.config, loaded.options, sink=sink).run()
    outcome.check()
    return outcome, losses


def test_sixty_steps_already_read_most_digits() -> None:
    outcome, losses = train("train.epochs=null", "train.steps=60", "schedule.warmup_steps=10")
    assert losses[0] > 2.0 and losses[-1] < 0.5
    assert outcome.metrics["test/accuracy"] > 0.93


@pytest.mark.full
def test_fast_numerics_read_as_many_digits() -> None:
    exact, _ = train("train.epochs=2")
    fast, _ = train("train.epochs=2", "numerics={class: fast}")
    assert fast.metrics["test/accuracy"] > 0.97
    assert abs(fast.metrics["test/accuracy"] - exact.metrics["test/accuracy"]) < 0.01
    assert fast.metrics["test/loss"] != exact.metrics["test/loss"]  # Winograd's algorithm did run


@pytest.mark.full
def test_compiled_and_reference_steps_agree() -> None:
    few = ["train.epochs=null", "train.steps=2", "train.log_every_steps=1", "schedule.warmup_steps=1"]
    few += ["data.batch_size=16", "data.valid_batch_size=32", "data.reader.fractions={valid: 0.0032, test: 0.0032}"]
    compiled, reference = train(*few, "device=cpu"), train(*few, "device=reference")
    np.testing.assert_allclose(compiled[1], reference[1], rtol=1e-4)
    assert compiled[0].metrics["test/loss"] == pytest.approx(reference[0].metrics["test/loss"], rel=1e-2)


def test_a_copied_recipe_brings_its_data_and_takes_other_pictures(tmp_path: Path) -> None:
    copy = tmp_path / "mine"
    shutil.copytree(RecipeIndex.built_in().folder("digits"), copy)
    task = make_task(target=str(copy / "config.yaml"))
    assert Path(type(task).data.__code__.co_filename).parent == copy
    assert str(copy / "data") in task.data().train.dataset.source(0)

    random = np.random.default_rng(0)
    (tmp_path / "images").write_bytes(idx(random.integers(0, 256, (40, 20, 36), dtype=np.uint8)))
    (tmp_path / "labels").write_bytes(idx(random.integers(0, 3, 40, dtype=np.uint8)))
    reader = "{name: idx, images: images, labels: labels, classes: [a, b, c], fractions: {valid: 0.2, test: 0.2}}"
    task = make_task(f"data.root={tmp_path}", f"data.reader={reader}", target=str(copy / "config.yaml"))
    splits = task.data()
    task.plan = Plan(splits.train.steps_per_epoch, total_steps=10)
    task.build()
    network = task.network.eval()  # type: ignore[attr-defined]
    assert network(engine.zeros((2, 1, 20, 36), dtype=engine.float32)).shape == (2, 3)


def test_splits_larger_than_the_data_are_the_users_mistake() -> None:
    with pytest.raises(TrainerError, match=r"the fractions can't be taken from train"):
        make_task("data.reader.fractions.test=0.96").data()
    with pytest.raises(TrainerError, match="no such file"):
        make_task("data.reader.images=elsewhere.gz").data()
