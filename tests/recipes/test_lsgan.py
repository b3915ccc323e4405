"""The lsgan recipe: what the losses of the paper teach each network, and whose features measure its pictures."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.cli import main
from trainer.configs import load
from trainer.engine import nn
from trainer.engine.safetensors import decoded
from trainer.learner import Plan
from trainer.learner.checkpoints import Array, write_checkpoint
from trainer.learner.checkpoints.format import point
from trainer.learner.weights import load_weights

pytestmark = pytest.mark.usefixtures("on_the_reference_device")


@pytest.fixture
def task() -> Any:
    loaded = load("lsgan", ["options.filters=2", "options.noise=4", "options.halvings=3"])
    made = loaded.task.import_module().LSGAN(loaded.config, loaded.options)
    made.size, made.plan = 16, Plan(10, 10)
    made.build()
    return made


def batch() -> dict[str, engine.Tensor]:
    photos = np.random.default_rng(0).integers(0, 256, (6, 3, 16, 16), dtype=np.uint8)
    return {"image": engine.asarray(photos), "weight": engine.ones((6,), dtype=engine.float32)}


def weights(network: nn.Module) -> dict[str, np.ndarray]:
    return {name: state.numpy().copy() for name, state in network.named_states().items()}


def test_pictures_have_the_photos_size_and_judgements_no_bounds(task: Any) -> None:
    with nn.RandomState(0).step():
        made = task.generator(task.fixed_noise(6))
        assert made.shape == (6, 3, 16, 16) and float(engine.max(engine.abs(made)).item()) < 1
        assert task.discriminator(made).shape == (6, 1)


def test_the_losses_are_the_papers(task: Any) -> None:
    with nn.RandomState(0).step():
        noise = nn.random.active().normal("noise", (6, 4))
        made, photos = task.generator(noise), batch()["image"].astype(engine.float32) * (1 / 127.5) - 1
        of_photos, of_made = task.discriminator(photos).numpy(), task.discriminator(made).numpy()
        made = engine.asarray(made.numpy())
    with nn.RandomState(0).step():
        losses = {name: loss.value.item() for name, loss in task.train_step(batch()).items()}
    expected = 0.5 * np.mean((of_photos - 1) ** 2) + 0.5 * np.mean(of_made**2)
    assert losses["discriminator_loss"] == pytest.approx(expected, rel=1e-4)
    with nn.RandomState(0).step():
        of_made_then = task.discriminator(made).numpy()  # by the discriminator that has made its step
    before, after = (0.5 * np.mean((judged - 1) ** 2) for judged in (of_made, of_made_then))
    assert losses["generator_loss"] == pytest.approx(after, rel=1e-4) and abs(before - after) > 1e-2 * after


def test_one_step_changes_both_networks_and_the_same_noise_is_shown_each_time(task: Any) -> None:
    before = weights(task.generator), weights(task.discriminator)
    np.testing.assert_array_equal(task.fixed_noise(3).numpy(), task.fixed_noise(6).numpy()[:3])
    with nn.RandomState(0).step():
        for loss in task.train_step(batch()).values():
            loss.value.item()
    for network, old in zip((task.generator, task.discriminator), before, strict=True):
        changed = weights(network)
        assert all(not np.array_equal(changed[name], old[name]) for name in old if name.endswith("weight"))


def test_the_features_are_those_of_the_clothes_networks_first_stages() -> None:
    loaded = load("lsgan")
    (metric,) = loaded.config.metrics.valid
    file = metric.model.weights  # type: ignore[attr-defined]
    features = loaded.task.import_module("features").ClothesFeatures()
    arrays, _ = decoded(file.read_bytes(), str(file))
    assert {name: values.shape for name, (values, _) in arrays.items()} == {
        name: state.shape for name, state in features.named_states().items()
    }
    photos = np.random.default_rng(0).uniform(-1, 1, (2, 3, 64, 64)).astype(np.float32)
    features.load_state_dict({name: values for name, (values, _) in arrays.items()})
    assert features.eval()(engine.asarray(photos)).shape == (2, 128)


def test_the_command_that_makes_the_features_anew_makes_all_of_them(tmp_path: Path) -> None:
    task = load("clothes", ["data.workers=0"])
    clothes = task.task.import_module().Clothes(task.config, task.options)
    clothes.class_names, clothes.plan = ["one", "other"], Plan(10, 10)
    clothes.build()
    states = {f"network.{name}": state for name, state in clothes.network.named_states().items()}
    arrays = {name: Array(state.numpy(), state.dtype) for name, state in states.items()}
    (tmp_path / "runs/clothes").mkdir(parents=True)
    write_checkpoint(tmp_path / "runs/clothes/checkpoints", 5, {"model": arrays, "ema": arrays}, {})
    point(tmp_path / "runs/clothes/checkpoints", "best", 5)

    loaded = load("lsgan")
    told = (loaded.task.folder / "data" / "README.md").read_text(encoding="utf-8")
    (command,) = (line for line in told.splitlines() if line.startswith("trainer checkpoint convert"))
    _, *words = shlex.split(command)
    words = [
        str(tmp_path / word) if word.startswith("runs/") or word.endswith(".safetensors") else word for word in words
    ]
    assert main(words) == 0
    features = loaded.task.import_module("features").ClothesFeatures()
    load_weights(tmp_path / "features.safetensors", {"features": features})
    np.testing.assert_array_equal(
        features.network.layer3[1].conv2.weight.numpy(), arrays["network.layer3.1.conv2.weight"].values
    )
