"""`trainer doctor resume`: a kill changes no bit, and what does is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.conftest import Commands
from tests.cli.test_python import TASK
from trainer.learner.checkpoints import Array, Checkpoint, first_difference

CONFIG = "task: ./line.py:Line\noptimizer: {name: adam}\ntrain: {epochs: 4}\n"


COUNTING = """

class Counting:
    class_names = ()
    calls = 0

    def __len__(self):
        return 16

    def source(self, index):
        return f"item {index}"

    def __getitem__(self, index):
        self.calls += 1
        return {"x": np.float32([index / 16]), "y": np.float32([self.calls / 100])}
"""


@pytest.fixture
def line(commands: Commands) -> Commands:
    (commands.folder / "line.py").write_text(TASK)
    (commands.folder / "line.yaml").write_text(CONFIG)
    return commands


@pytest.mark.full
def test_a_config_that_resumes_to_the_same_bits_is_told_so_and_leaves_nothing(line: Commands) -> None:
    before = set(line.folder.iterdir())
    done = line.finish("doctor", "resume", "line.yaml", "--steps", "3", "--json", "seed=2")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["equal"] and told["steps"] == 6 and told["arrays"] >= 6 and told["first_difference"] is None
    assert "part=3/3" in done.stderr and "resumed_from=" in done.stderr
    assert set(line.folder.iterdir()) - before <= {line.folder / "__pycache__"}


@pytest.mark.full
def test_a_kill_changes_no_bit_on_a_gpu(line: Commands) -> None:
    line.environment["TRAINER_CUDA"] = "emulated"
    done = line.finish("doctor", "resume", "line.yaml", "--steps", "2", "--json", "device=cuda")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["equal"]


@pytest.mark.full
def test_the_first_array_that_differs_is_named(line: Commands) -> None:
    unseeded = TASK.replace("np.linspace(-1, 1, 16, dtype=np.float32)", "np.random.rand(16).astype(np.float32)")
    (line.folder / "line.py").write_text(unseeded)
    done = line.finish("doctor", "resume", "line.yaml", "--steps", "2")
    assert done.returncode == 1, done.stderr
    said = "DIFFERENT after 2 steps, before the kill: model/net.bias: 1 of 1 elements"
    assert done.stdout.startswith(said) and "numpy.random" in done.stdout


@pytest.mark.full
def test_what_a_new_process_does_not_have_is_told_from_what_is_random(line: Commands) -> None:
    counting = TASK.replace('ArrayDataset({"x": x, "y": SLOPE * x})', "Counting()") + COUNTING
    (line.folder / "line.py").write_text(counting)
    done = line.finish("doctor", "resume", "line.yaml", "--steps", "3", "--json")
    assert done.returncode == 1, done.stderr
    assert not json.loads(done.stdout)["first_difference"]["before_the_kill"]


@pytest.mark.full
def test_a_run_that_is_too_short_or_fails_is_said(line: Commands) -> None:
    short = line.finish("doctor", "resume", "line.yaml", "train.epochs=1", "--steps", "3")
    assert short.returncode == 2 and "smaller --steps" in short.stderr
    wrong = line.finish("doctor", "resume", "line.yaml", "train.epoch=1")
    assert wrong.returncode == 2 and "did you mean" in wrong.stderr and "no comparison, because" in wrong.stderr


def checkpoint(values: list[float], **state: object) -> Checkpoint:
    return Checkpoint({"model": {"w": Array.of(np.array(values))}}, {"seconds": len(values), **state})


def test_differences_are_of_bits_and_name_their_place() -> None:
    assert first_difference(checkpoint([0.0, float("nan")]), checkpoint([0.0, float("nan")])) is None
    assert first_difference(checkpoint([1.0, 0.0]), checkpoint([1.0, -0.0])) == (
        "model/w", "1 of 2 elements, the first at [1]: 0.0 and -0.0",
    )  # fmt: skip
    assert first_difference(checkpoint([1.0]), checkpoint([1.0, 2.0])) == ("model/w", "float64 (1,) and float64 (2,)")
    found = first_difference(checkpoint([1.0], metrics={"a": 1, "b": 2}), checkpoint([1.0], metrics={"a": 1, "b": 3}))
    assert found == ("state.json metrics/b", "2 and 3")
    assert first_difference(checkpoint([1.0]), Checkpoint({}, {})) == ("model/w", "only in the first")
