"""Every block of the pages: commands and Python run from top to bottom, configurations are valid."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.datasets.layout_folders import (
    class_flat,
    coco_file,
    coco_standard,
    noise,
    save,
    stems_of,
    voc,
    yolo_ultralytics,
)
from tests.docs.blocks import LANGUAGES, Shell, blocks, fences, run_page, write_pytorch_file
from tests.end_to_end.test_guides import Content
from tests.recipes.test_own_data import SMALL
from trainer.cli import verb_parser
from trainer.configs import RunConfig, config_from, load
from trainer.configs.problems import Place
from trainer.configs.reader import read_yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
RECIPES = sorted((REPOSITORY / "trainer" / "recipes").glob("*/README.md"))

DIGITS = REPOSITORY / "trainer" / "recipes" / "digits" / "data"
FEW = 600
"""Digits that a page trains and is tested on."""
SHORT = ("train.epochs=1", "data.batch_size=4", "data.valid_batch_size=4", "data.workers=0", "data.cache_gb=0")
SMALL_RUNS = {
    "detection": (*SHORT, *SMALL["detection"]),
    "clothes": (*SHORT, *SMALL["clothes"]),
}
"""What makes the training of a recipe small, beside the words of the page."""


def photos(folder: Path, name: str = "photos") -> None:
    """Two classes of photos."""
    class_flat(folder / name, Content())
    (folder / name / "hat/Thumbs.db").unlink()


def photos_and_a_new_one(folder: Path) -> None:
    """Photos to train on, and one to predict."""
    photos(folder)
    save(folder / "new.jpg", noise(5, (64, 64)))


def cells(folder: Path) -> None:
    """A small detector, as the run `cells`, photos to predict, and data to evaluate on."""
    yolo_ultralytics(folder / "my_data", Content())
    for kind in ("images", "labels"):
        shutil.copytree(folder / f"my_data/{kind}/val", folder / f"my_data/{kind}/test")
    for path in (folder / "my_data/images/test").iterdir():
        save(path, noise(len(path.name) + 90, (64, 64)))
    for name in ("photo.jpg", "photos/a.jpg", "photos/b.png", "photos/c.png"):
        save(folder / name, noise(len(name), (64, 64)))
    trained(folder, "detection", "cells", "data.root=my_data")


def digits(folder: Path) -> None:
    """The recipe, trained for a moment, as the run `digits`."""
    trained(folder, "digits", "digits", "train.steps=20", "train.epochs=null")


def trained(folder: Path, recipe: str, name: str, *words: str) -> None:
    """A small run of a recipe."""
    from tests.cli.conftest import Commands

    commands = Commands(folder, REPOSITORY)
    done = commands.finish("run", recipe, "--name", name, *small_runs(folder)[recipe], *words)
    assert done.returncode == 0, done.stderr


def small_runs(folder: Path) -> dict[str, Sequence[str]]:
    """Options that make the training of each recipe small; the digits for it are written next to `folder`."""
    few = folder.parent / "few"
    if not few.exists():
        few.mkdir()
        for path, header, size in (("t10k-images-idx3-ubyte.gz", 16, 784), ("t10k-labels-idx1-ubyte.gz", 8, 1)):
            with gzip.open(DIGITS / path) as file:
                content = bytearray(file.read(header + FEW * size))
            content[4:8] = FEW.to_bytes(4, "big")
            (few / path).write_bytes(gzip.compress(bytes(content)))
    settings = yaml.safe_load((DIGITS.parent / "config.yaml").read_text())["data"]["reader"]
    return {"digits": (f"data.root={few}", f"data.reader={json.dumps(settings)}"), **SMALL_RUNS}


def program(folder: Path) -> None:
    """Nothing but the folder."""


def tables(folder: Path) -> None:
    """Annotations in COCO's format with results that fit them, one file for each kind."""
    content = coco_file([f"{stem}.jpg" for stem in stems_of("val")], Content())
    for index, one in enumerate(content["annotations"]):
        x, y, wide, high = one["bbox"]
        one["segmentation"] = [[x, y, x + wide, y, x + wide, y + high, x, y + high]]
        one["keypoints"], one["num_keypoints"], one["id"] = [x, y, 2] * 17, 17, index + 1
    for name in ("instances_val2017", "person_keypoints_val2017"):
        (folder / f"{name}.json").write_text(json.dumps(content))
    found = [{"image_id": one["image_id"], "category_id": one["category_id"], "score": 0.9} | part
             for one in content["annotations"] for part in ({"bbox": one["bbox"]},)]  # fmt: skip
    (folder / "results.json").write_text(json.dumps(found))
    sizes = {one["id"]: (one["height"], one["width"]) for one in content["images"]}
    masks = [
        {"image_id": one["image_id"], "category_id": one["category_id"], "score": 0.9,
         "segmentation": one["segmentation"] and run_length(one["segmentation"][0], sizes[one["image_id"]])}
        for one in content["annotations"]
    ]  # fmt: skip
    (folder / "masks.json").write_text(json.dumps(masks))
    people = [{"image_id": one["image_id"], "category_id": one["category_id"], "score": 0.9,
               "keypoints": one["keypoints"]} for one in content["annotations"]]  # fmt: skip
    (folder / "people.json").write_text(json.dumps(people))


def run_length(polygon: Sequence[float], size: tuple[int, int]) -> dict[str, Any]:
    """COCO's run length of a rectangle."""
    from pycocotools import mask

    merged = mask.merge(mask.frPyObjects([list(polygon)], *size))
    return {"size": list(size), "counts": merged["counts"].decode()}


def data_sets(folder: Path) -> None:
    """The folders and files of the page on data."""
    coco_standard(folder / "bccd", Content(".png"))
    for path in [*(folder / "bccd/annotations").iterdir(), *(folder / "bccd").glob("*2017")]:
        path.rename(path.with_name(path.name.replace("2017", "")))
    coco_standard(folder, Content())
    (folder / "annotations/instances_val2017.json").rename(folder / "instances_val2017.json")
    voc(folder / "VOC2007", Content())
    (folder / "config.yaml").write_text("extends: digits\n")


def texts(folder: Path) -> None:
    """The two files of the page on texts, a short text and prompts."""
    (page,) = (page for page in PAGES if page.name == "text-and-series.md")
    for name, language in (("plays.yaml", "yaml"), ("writing.py", "python")):
        (folder / name).write_text(next(block.text for block in blocks(page) if block.language == language))
    (folder / "plays").mkdir()
    (folder / "plays/input.txt").write_text("ROMEO: but soft, what light through yonder window breaks?\n" * 200)
    (folder / "starts.txt").write_text("ROMEO:\nlight\n")


def how_to(folder: Path) -> None:
    """A configuration for the commands that need one."""
    (folder / "config.yaml").write_text("extends: digits\n")


def search(folder: Path) -> None:
    """The configuration of the page on sweeps."""
    (page,) = (page for page in PAGES if page.name == "sweeps.md")
    (folder / "search.yaml").write_text(next(block.text for block in blocks(page) if block.language == "yaml"))


def to_tune(folder: Path) -> None:
    """Photos of two sizes of data set, and a file of ResNet-18's weights as PyTorch writes it."""
    photos(folder)
    photos(folder, "many_photos")
    shutil.copytree(folder / "photos/hat", folder / "many_photos/coat")
    for path in (folder / "many_photos/coat").iterdir():
        save(path, noise(len(path.name) + 50, (64, 64)))
    write_pytorch_file(folder / "resnet18.pth", resnet(18))


def weights(folder: Path) -> None:
    """A run, and a file of weights as PyTorch writes it."""
    digits(folder)
    write_pytorch_file(folder / "resnet50.pth", {"fc.weight": np.zeros((1000, 2048)), "fc.bias": np.zeros(1000)})


def resnet(depth: int) -> dict[str, np.ndarray]:
    """The states of a residual network under the names of torchvision."""
    from trainer.recipes.parts.resnet import ResNet

    network = ResNet({18: (2, 2, 2, 2)}[depth])
    return {name: np.asarray(value) for name, value in network.state_dict().items()}


@dataclass(frozen=True)
class Setting:
    """In what a page's blocks run: what lies in the folder, names that its Python uses, and options of trainings."""

    prepare: Callable[[Path], None] = program
    names: str = ""
    small: dict[str, Sequence[str]] = field(default_factory=dict)


ENGINE = """
import numpy as np
from trainer import engine
from trainer.engine import nn
from trainer.learner import SGD
network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = SGD(network, 0.1)
batch = np.ones((2, 4), np.float32)
images, labels, data = batch, np.array([0, 1]), [batch] * 4
def step(batch):
    loss = engine.mean(network(engine.asarray(batch)) ** 2)
    optimizer.minimize(loss)
    return loss
def np_histogram(scores):
    counts, edges = np.histogram(scores, 64)
    return counts.astype(np.int64), edges.astype(np.float32)
def log_loss(loss):
    print(float(loss))
scores, loss = engine.asarray(np.arange(8, dtype=np.float32)), engine.asarray(np.float32(1))
"""
DATA = """
import numpy as np
from trainer.datasets import ArrayDataset, Loader
dataset = ArrayDataset({"image": np.zeros((8, 3, 32, 32), np.uint8)})
epochs = 1
"""
SETTINGS = {
    "README.md": Setting(),
    "index.md": Setting(),
    "quick-start.md": Setting(photos_and_a_new_one),
    "how-to.md": Setting(how_to, small={"config.yaml": ("train.steps=2", "train.epochs=null")}),
    "sweeps.md": Setting(
        search,
        small={
            "search.yaml": ("train.steps=2", "train.epochs=null", "sweep.trials=2"),
            "sweeps/night": ("sweep.trials=3",),
        },
    ),
    "configuration.md": Setting(),
    "tasks.md": Setting(photos, small={"config.yaml": ("train.steps=4", "train.epochs=null")}),
    "tour.md": Setting(),
    "fine-tuning.md": Setting(to_tune, small={"clothes": (*SHORT, *SMALL["clothes"][1:])}),  # without a width
    "weights.md": Setting(weights),
    "inference.md": Setting(cells, "from trainer.learner import Task\nfrom trainer.engine import float32"),
    "export.md": Setting(cells),
    "evaluation.md": Setting(tables),
    "data.md": Setting(data_sets, DATA),
    "text-and-series.md": Setting(texts, small={"plays.yaml": ("train.epochs=1",)}),
    "metrics.md": Setting(names="from trainer.metrics import Mean, Predictions\nfrom trainer.engine import nn"),
    "training.md": Setting(),
    "run.md": Setting(),
    "engine.md": Setting(names=ENGINE),
    "program.md": Setting(
        names="import numpy as np\nfrom trainer.engine import nn\n"
        "network = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\nimage = np.zeros((1, 1, 28, 28), np.float32)"
    ),
}
ELSEWHERE = {
    "python.md": "tests/test_readme.py",
    "functions.md": "tests/engine/test_examples.py",
    "layers.md": "tests/engine/test_examples.py",
    "operations.md": "tests/engine/test_docstring_examples.py",
    "scale.md": "tests/end_to_end/test_ranks.py",
    "gpu.md": "tests/learner/test_cuda.py trains, in the emulator; its commands need a GPU",
    "results.md": "its commands are the benchmarks, which no test runs",
    "CONTRIBUTING.md": "its commands are the test tiers themselves",
    **{f"own-{name}.md": "tests/end_to_end/test_guides.py"
       for name in ("classification", "detection", "segmentation", "instances", "image-to-image")},
}  # fmt: skip
"""Pages whose blocks are run by another test, or by none, and why."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_its_language_and_hides_no_command(page: Path) -> None:
    assert {*fences(page)} <= LANGUAGES
    hidden = [line for block in blocks(page) if block.language == "text" for line in block.text.splitlines()
              if line.startswith(("trainer ", "pip "))]  # fmt: skip
    assert hidden == []


def test_every_page_with_commands_or_code_is_run() -> None:
    with_code = {page.name for page in PAGES if any(block.language in ("sh", "python") for block in blocks(page))}
    assert with_code == {*SETTINGS, *ELSEWHERE}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_configuration_is_valid(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            json.loads(block.text)
        if block.language != "yaml" or not (keys := read_yaml(block.text, Place(page.name)).value):
            continue
        assert set(keys) <= set(RunConfig.model_fields), f"{page.name}:{block.line}"
        check_keys(keys)


def check_keys(keys: dict[str, Any]) -> None:
    """Raises where a key or a value of a configuration is not valid; what only a recipe or a file says is added."""
    keys = dict(keys)
    if "extends" in keys:
        load(keys)
        return
    if isinstance(given := keys.get("optimizer"), dict) and "name" not in given:
        keys["optimizer"] = {"name": "adamw", **given}
    if not keys.keys() & {"optimizer", "optimizers"}:
        keys["optimizer"] = {"name": "adam", "learning_rate": 1e-3}
    if not (train := keys.get("train", {})).keys() & {"epochs", "steps", "minutes"}:
        keys["train"] = {"epochs": 30, **train}
    config_from(keys)


@pytest.mark.full
@pytest.mark.parametrize("name", SETTINGS)
def test_the_blocks_of_a_page_run_from_top_to_bottom(
    name: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting, folder = SETTINGS[name], tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    setting.prepare(folder)
    names: dict[str, Any] = {"__name__": "page"}
    exec(setting.names, names)
    (page,) = (page for page in PAGES if page.name == name)
    run_page(page, Shell(folder, repository, {**small_runs(folder), **setting.small}), names)


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.parent.name)
def test_the_commands_of_a_recipes_page_are_valid(page: Path) -> None:
    lines = [line for block in blocks(page) for line in block.text.splitlines() if line.startswith("trainer ")]
    assert len(lines) >= 3
    for line in lines:
        verb, *words = shlex.split(line, comments=True)[1:]
        parsed = verb_parser(verb)[1].parse_args(words)
        if verb == "run" and (target := parsed.words[0]) != "config.yaml":
            load(target, parsed.words[1:])
