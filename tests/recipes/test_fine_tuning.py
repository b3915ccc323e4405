"""Weights of one recipe as the start of another: found by name, with the normalization of their images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from trainer.cli.tasks import task_class
from trainer.cli.weights import with_weights
from trainer.configs import Loaded, dump_resolved, load
from trainer.learner import Plan, Task
from trainer.learner.checkpoints import Array, write_checkpoint
from trainer.learner.checkpoints.format import point
from trainer.learner.task import parts_of
from trainer.learner.weights import start_from

pytestmark = pytest.mark.usefixtures("on_the_reference_device")

SMALL = ("options.width=4", "options.blocks=[1, 1, 1, 1]")
DETECTION = ("options.pyramid_channels=8", "options.head_depth=1")


def built(loaded: Loaded, classes: int) -> Task:
    task: Any = task_class(loaded.task)(loaded.config, loaded.options)
    task.class_names, task.plan = tuple(map(str, range(classes))), Plan(1, 10)
    task.build()
    return task


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """The run directory of photos of 3 classes, and its weights."""
    loaded = with_weights(load("clothes", [*SMALL, "seed=5"]), lambda event: None)
    arrays = {f"network.{name}": value for name, value in built(loaded, 3).network.state_dict().items()}  # type: ignore[attr-defined]
    group = {name: Array.of(value) for name, value in arrays.items()}
    (tmp_path / "run").mkdir()
    write_checkpoint(tmp_path / "run/checkpoints", 7, {"ema": group}, {"config": loaded.config.model_dump(mode="json")})
    point(tmp_path / "run/checkpoints", "latest", 7)
    return tmp_path / "run", arrays


def test_a_detector_takes_the_backbone_of_a_classifier(run: tuple[Path, dict[str, np.ndarray]]) -> None:
    folder, arrays = run
    loaded = with_weights(
        load("detection", [*SMALL, *DETECTION, f"model.parts.backbone.weights={folder}"]), lambda event: None
    )
    assert loaded.config.model.normalization == load_normalization("clothes")
    resolved = dump_resolved(loaded)
    assert "mean: [0.5019607843137255]" in resolved and resolved.count("# weights") == 2
    task = built(loaded, 2)
    (line,) = start_from(loaded.config.model, parts_of(task).modules, task.head)
    assert "for backbone: 72 of 72 arrays loaded from network; not used: network.fc" in line
    for name, value in task.network.backbone.state_dict().items():  # type: ignore[attr-defined]
        np.testing.assert_array_equal(value, arrays[f"network.{name}"])


def test_a_classifier_takes_another_classifier_and_its_backbone_from_a_detector(
    run: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    folder, arrays = run
    detector = {
        name.replace("network.", "network.backbone."): value for name, value in arrays.items() if ".fc." not in name
    }
    save_file({**detector, "network.head.scales": np.ones(3, np.float32)}, tmp_path / "detector.safetensors")
    for weights, origin in ((folder, "weights"), (tmp_path / "detector.safetensors", "task")):
        loaded = with_weights(load("clothes", [*SMALL, f"model.weights={weights}"]), lambda event: None)
        assert loaded.provenance["model.normalization.mean"] == origin
        task = built(loaded, 5)
        (line,) = start_from(loaded.config.model, parts_of(task).modules, task.head)
        assert "72 of 72 arrays loaded" in line and "the head is initialized (fc.weight" in line
        np.testing.assert_array_equal(task.network.conv1.weight.numpy(), arrays["network.conv1.weight"])  # type: ignore[attr-defined]


def test_without_weights_the_normalization_is_the_recipes(tmp_path: Path) -> None:
    plain = with_weights(load("clothes", []), lambda event: None)
    assert plain.config.model.normalization == load_normalization("clothes")
    named = with_weights(load("clothes", ["options.backbone=resnet18"]), lambda event: None)
    assert named.config.model.normalization is not None
    assert named.config.model.normalization.mean == (0.485, 0.456, 0.406)
    earlier = named.config.model.model_copy(update={"sha256": "0" * 64})
    assert load("clothes", []).config.model.with_records_of(earlier) == earlier


def load_normalization(recipe: str) -> Any:
    loaded = load(recipe, [])
    assert loaded.declaration is not None
    return loaded.declaration.normalization_of(loaded.config.model, loaded.options)
