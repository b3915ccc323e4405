"""Recipes, files that extend each other, overrides: what holds in the end, and where it came from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer import TrainerError
from trainer.configs import ConfigError, load
from trainer.configs.optimizers.adaptive import AdamConfig
from trainer.configs.optimizers.momentum import SgdConfig
from trainer.configs.schedules.decay import StepSchedule


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of a user, and the working directory."""
    home = tmp_path / "mine"
    home.mkdir()
    monkeypatch.chdir(home)
    return home


def test_a_recipe_is_loaded_by_name(gallery):
    loaded = load("tiny", recipes=gallery)
    assert loaded.config.optimizer == SgdConfig(name="sgd", learning_rate=0.1, momentum=0.9)
    assert loaded.options.width == 16 and loaded.options.sizes == (3, 5)
    assert loaded.config.options["width"] == 16
    assert loaded.task.recipe == "tiny" and loaded.task.class_name == "Tiny"
    assert loaded.provenance["data.batch_size"] == "recipe tiny"
    assert loaded.provenance["seed"] == "default"


def test_a_file_holds_over_what_it_extends(gallery, folder):
    (folder / "base.yaml").write_text("extends: tiny\ndata: {batch_size: 8}\nseed: 3\n")
    (folder / "config.yaml").write_text("extends: ./base.yaml\nseed: 4\noptions: {head: {kind: cosine}}\n")
    loaded = load("config.yaml", recipes=gallery)
    config = loaded.config
    assert (config.seed, config.data.batch_size, config.train.epochs) == (4, 8, 4)
    assert loaded.options.width == 16 and loaded.options.head.kind == "cosine"
    assert loaded.provenance["seed"] == "config.yaml:2:7"
    assert loaded.provenance["data.batch_size"] == "base.yaml:2:20"
    assert loaded.provenance["train.epochs"] == "recipe tiny"


def test_overrides_are_yaml_and_hold_over_files(gallery):
    overrides = ["optimizer.learning_rate=1e-3", "options.sizes=[1, 2]", "options.sizes[1]=7", "data={batch_size: 5}"]
    loaded = load("tiny", overrides, recipes=gallery)
    assert loaded.config.optimizer.learning_rate == 0.001 and loaded.config.optimizer.momentum == 0.9
    assert loaded.options.sizes == (1, 7) and loaded.config.data.batch_size == 5
    assert loaded.provenance["optimizer.learning_rate"] == "<cli>"


def test_of_two_overrides_for_one_key_the_later_holds(gallery):
    assert load("tiny", ["seed=1", "seed=2"], recipes=gallery).config.seed == 2


@pytest.mark.parametrize(
    "overrides",
    [
        ["optimizer.name=adam", "optimizer.epsilon=1e-4"],
        ["optimizer.epsilon=1e-4", "optimizer.name=adam"],
        ["optimizer={name: adam, epsilon: 1e-4}"],
    ],
)
def test_choosing_another_optimizer_drops_what_was_set_for_the_former_one(gallery, overrides):
    assert load("tiny", overrides, recipes=gallery).config.optimizer == AdamConfig(name="adam", epsilon=1e-4)


def test_setting_one_of_an_exclusive_group_drops_the_inherited_other(gallery, folder):
    assert load("tiny", ["train.steps=7"], recipes=gallery).config.train.epochs is None
    (folder / "config.yaml").write_text("extends: tiny\nschedule: {name: step, step_size: 2}\n")
    schedule = load("config.yaml", ["schedule.milestones=[1]"], recipes=gallery).config.schedule
    assert schedule == StepSchedule(name="step", milestones=(1,))


def test_a_name_does_not_make_a_run_another_variant(gallery, folder):
    (folder / "config.yaml").write_text("extends: tiny\nname: first\n")
    config = load("config.yaml", ["name=second"], recipes=gallery).config
    assert config.name == "second" and config.train.epochs == 4


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("a[0].b=1", "<cli> a[0].b: no such key or item: the value here has another form"),
        ("options.sizes[9]=1", "<cli> options.sizes[9]: no such key or item: the value here has another form"),
        ("extends=tiny", "<cli> extends: can't be overridden: give the recipe or file as the argument of the command"),
        ("seed=[1", "<cli> seed: not YAML: a bracket [ is not closed, or a comma is missing after it"),
        ("seed=!!python/name:os.system x",
         "<cli> seed: YAML tags are not supported: write the plain value, in quotes for text"),
        ("=3", "<cli>: '=3' is not of the form key=value, such as train.epochs=5"),
        ("a..b=3", "<cli>: 'a..b=3' is not of the form key=value, such as train.epochs=5"),
        ("train.epocs=3", "<cli> train.epocs: unknown key, did you mean 'epochs'?"),
        ("task=./none.py:Task", None),
    ],
)  # fmt: skip
def test_a_wrong_override_is_reported_as_the_command_lines(gallery, folder, override, line):
    with pytest.raises(ConfigError) as error:
        load("tiny", [override], recipes=gallery)
    (problem,) = error.value.problems
    assert str(problem) == (line or f"<cli> task: no file {folder / 'none.py'}")


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["options.sizes=[1]", "options.sizes[1]=2"], "<cli> options.sizes[1]: no such item: the list is shorter"),
        (["options.sizes=[1]", "options.sizes[0].a=2"],
         "<cli> options.sizes[0]: expected an integer, found a mapping of 1"),
        (["options=[]", "options.width=2"],
         "<cli> options.width: no such key or item: the value here has another form"),
    ],
)  # fmt: skip
def test_overrides_that_do_not_fit_together_are_reported(gallery, overrides, line):
    with pytest.raises(ConfigError) as error:
        load("tiny", overrides, recipes=gallery)
    assert line in str(error.value).splitlines()


def test_paths_start_from_the_file_or_shell_that_gives_them(gallery, folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "base.yaml").write_text("extends: tiny\ndata: {root: images}\noptions: {vocabulary: words.txt}\n")
    (folder / "config.yaml").write_text("extends: sub/base.yaml\n")
    loaded = load("config.yaml", ["model.weights=w.safetensors"], recipes=gallery)
    assert loaded.config.data.root == folder / "sub" / "images"
    assert loaded.options.vocabulary == folder / "sub" / "words.txt"
    assert loaded.config.model.weights == folder / "w.safetensors"


def test_parts_of_the_model_start_from_files_of_their_own(gallery, folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "config.yaml").write_text(
        "extends: tiny\nmodel: {weights: all.pt, parts: {net.backbone: {weights: b.npz, exclude: [fc.*]}}}\n"
    )
    model = load("sub/config.yaml", ["model.parts.head={weights: h.pth}"], recipes=gallery).config.model
    assert model.weights == folder / "sub" / "all.pt"
    assert model.parts["net.backbone"].weights == folder / "sub" / "b.npz"
    assert model.parts["net.backbone"].exclude == ("fc.*",) and model.parts["head"].weights == folder / "h.pth"


@pytest.mark.parametrize("rename", ["{'(': x}", "{'a(b)': '\\2'}"])
def test_a_rename_that_is_no_regular_expression_is_reported(gallery, rename):
    with pytest.raises(ConfigError, match=r"model\.rename: .*is not a regular expression"):
        load("tiny", [f"model.rename={rename}"], recipes=gallery)


def test_a_task_of_ones_own_stands_beside_its_config(gallery, folder):
    (folder / "sub").mkdir()
    options = "from trainer.configs import Section\nclass Options(Section):\n    a: int\n"
    (folder / "sub" / "options.py").write_text(options)
    (folder / "sub" / "work.py").write_text("from .options import Options\nclass Mine:\n    options_model = Options\n")
    text = "task: ./work.py:Mine\noptimizer: {name: adam}\ntrain: {epochs: 1}\noptions: {a: 1}\n"
    (folder / "sub" / "config.yaml").write_text(text)
    loaded = load("sub/config.yaml", recipes=gallery)
    assert loaded.task.recipe is None and loaded.task.file == folder / "sub" / "work.py"
    assert isinstance(loaded.options, loaded.task.import_module().Mine.options_model)


def test_a_copied_recipe_runs_its_own_copy(gallery, folder):
    for name in ("config.yaml", "options.py", "task.py"):
        (folder / name).write_text((gallery.folder("tiny") / name).read_text())
    loaded = load("config.yaml", recipes=gallery)
    assert loaded.task.file == folder / "task.py" and loaded.task.recipe is None
    assert loaded.options.width == 16


def test_a_task_without_options_takes_none(gallery, folder):
    (folder / "bare.py").write_text("class Bare: pass\n")
    text = "task: ./bare.py:Bare\noptimizer: {name: adam}\ntrain: {epochs: 1}\n"
    (folder / "config.yaml").write_text(text)
    assert load("config.yaml", recipes=gallery).options is None
    with pytest.raises(ConfigError, match=r"<cli> options: the task takes no options"):
        load("config.yaml", ["options.a=1"], recipes=gallery)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("x = 1\nclass Options(:\n", "{file}:2:15: invalid syntax"),
        ("import json\n\njson.nothing\n", "{file}:3:1: AttributeError: module 'json' has no attribute 'nothing'"),
        ("Options = 3\n", "{file}: expected a pydantic model named Options"),
        ("from pydantic import BaseModel\nclass Options(BaseModel):\n    a: int = 1\n",
         "{file}: expected Options that refuse unknown keys: derive it from trainer.configs.Section"),
    ],
)  # fmt: skip
def test_a_broken_options_file_is_the_users_mistake_with_its_line(gallery, code, line):
    file = gallery.folder("tiny") / "options.py"
    file.write_text(code)
    with pytest.raises(ConfigError) as error:
        load("tiny", recipes=gallery)
    assert str(error.value) == line.format(file=file)


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("tinny", "tinny: no recipe and no file has this name, did you mean 'tiny'?"),
        ("parts", "parts: no recipe and no file has this name; known here: tiny"),
        ("none.yaml", "none.yaml: no such file\n  found:    in {folder}: no YAML file"),
        ("a/b/none.yaml", "a/b/none.yaml: no such file\n  found:    the folder {folder}/a/b doesn't exist either"),
    ],
)
def test_a_target_that_is_not_there_is_named(gallery, folder, target, line):
    with pytest.raises(TrainerError) as error:
        load(target, recipes=gallery)
    assert str(error.value) == line.replace("{folder}", str(folder))


def test_files_that_extend_each_other_in_a_circle_are_refused(gallery, folder):
    (folder / "a.yaml").write_text("extends: b.yaml\n")
    (folder / "b.yaml").write_text("seed: 1\nextends: ./a.yaml\n")
    with pytest.raises(ConfigError) as error:
        load("a.yaml", recipes=gallery)
    line = "b.yaml:2:10 extends: files extend each other in a circle: a.yaml -> b.yaml -> a.yaml"
    assert str(error.value) == line


@pytest.mark.parametrize(("base", "why"), [("gone.yaml", "no such file: gone.yaml"), ("tinny", "did you mean 'tiny'?"),
                                           ("[a]", "expected a recipe's name or a YAML file")])  # fmt: skip
def test_a_base_that_is_not_there_is_reported_where_it_is_named(gallery, folder, base, why):
    (folder / "config.yaml").write_text(f"extends: {base}\n")
    with pytest.raises(ConfigError) as error:
        load("config.yaml", recipes=gallery)
    assert str(error.value).startswith("config.yaml:1:10 extends: ") and str(error.value).endswith(why)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_reported(gallery, folder):
    (folder / "config.yaml").write_text("task: tiny\n")
    (folder / "config.yaml").chmod(0)
    with pytest.raises(ConfigError, match=r"config.yaml: can't be read: Permission denied"):
        load("config.yaml", recipes=gallery)


def test_a_folder_named_as_a_file_is_reported(gallery, folder):
    (folder / "odd.yaml").mkdir()
    with pytest.raises(ConfigError, match=r"odd.yaml: can't be read: Is a directory"):
        load("odd.yaml", recipes=gallery)


def test_what_was_not_looked_at_is_said(gallery, folder):
    loaded = load("tiny", ["data.root=images", "model.weights=w.safetensors"], recipes=gallery)
    assert [part.split(" (")[0] for part in loaded.not_loaded] == [
        "the task's code", "its data", "the task's requirements", "weights",
    ]  # fmt: skip


def test_reading_a_config_imports_nothing_heavy(gallery):
    code = (
        "import sys; from pathlib import Path; from trainer.configs import RecipeIndex, load; "
        f"load('tiny', recipes=RecipeIndex(Path({str(gallery.root)!r}))); "
        "print([n for n in ('numpy', 'llvmlite', 'textual', 'trainer.engine', 'trainer.learner') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[2])  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_a_schedule_of_ones_own_is_found_beside_its_config_and_its_options_are_checked(gallery, folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "saw.py").write_text(
        "from trainer.configs import Schedule\n"
        "class Saw(Schedule):\n"
        "    name: str = 'saw'\n"
        "    period: int\n"
        "    def shape(self, time, stretch, xp):\n"
        "        return 1 - (time / self.period - xp.floor(time / self.period))\n"
        "class Other: pass\n"
    )
    text = "extends: tiny\nschedule: {name: ./saw.py:Saw, warmup_steps: 2, options: {period: 4}}\n"
    (folder / "sub" / "config.yaml").write_text(text)
    schedule = load("sub/config.yaml", recipes=gallery).config.schedule
    assert schedule.name == f"{folder / 'sub' / 'saw.py'}:Saw" and schedule.resolved().period == 4
    for override, line in (
        ("schedule.options={period: x}", "<cli> schedule.options.period: input should be a valid integer"),
        ("schedule.name=./none.py:Saw", f"<cli> schedule.name: ValueError: no file {folder / 'none.py'}"),
        ("schedule.name=./sub/saw.py:Sow", f"ValueError: {folder / 'sub' / 'saw.py'} has no class Sow"),
        ("schedule.name=./sub/saw.py:Other", "does not derive from trainer.configs.Schedule"),
    ):
        with pytest.raises(ConfigError) as error:
            load("sub/config.yaml", [override], recipes=gallery)
        assert line in str(error.value)


@pytest.mark.parametrize(
    ("schedule", "line"),
    [
        ("{name: sequence, parts: [{name: constant}, {name: linear}], milestones: [3, 5]}",
         "schedule.milestones: 2 parts need 1 milestones, found 2"),
        ("{name: product, parts: [{name: cosine, perod: 3}, {name: constant}]}",
         "schedule.parts[0].perod: unknown key, did you mean 'period'?"),
        ("{name: sequence, parts: [{name: constant}, {name: step, step_size: 1, milestones: [2]}], milestones: [3]}",
         "schedule.parts[1].milestones: set together with 'step_size'; expected only one of them"),
        ("{name: cosin}", "found 'cosin', did you mean 'cosine'?"),
        ("{gamma: 1}", "schedule.name: required key is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_inside_a_schedule_is_named_with_its_place(gallery, folder, schedule, line):
    (folder / "config.yaml").write_text(f"extends: tiny\nschedule: {schedule}\n")
    with pytest.raises(ConfigError) as error:
        load("config.yaml", recipes=gallery)
    assert line in str(error.value) and "config.yaml:2:" in str(error.value)


def test_fractions_with_other_data_replace_those_of_the_recipe():
    assert load("digits").config.data.reader.fractions == {"valid": 0.05, "test": 0.15}
    reader = load("digits", ["data.root=elsewhere", "data.reader.fractions={valid: 0.2}"]).config.data.reader
    assert (reader.name, reader.fractions) == ("auto", {"valid": 0.2})
