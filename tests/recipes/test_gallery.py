"""What every recipe's folder holds, that its config is valid, its README true, and that it trains."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from statistics import fmean

import pytest
from packaging.licenses import canonicalize_license_expression
from PIL import Image

from tests.tiers import tiered
from trainer import open_run
from trainer.cli.gallery import listing
from trainer.cli.projects import write_project
from trainer.configs import RecipeIndex, Span, load
from trainer.engine.targets.disk_cache import cache_directory, private_directory

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import provenance
import recipes
from published import MARKED, OUTPUT, RUNS
from recipes import ROWS, known_seconds, latest, means, recorded, results, train, verdict

REPOSITORY = Path(__file__).parents[2]
GALLERY = RecipeIndex.built_in()


@pytest.mark.parametrize("name", GALLERY.names())
def test_a_recipe_is_complete(name: str) -> None:
    folder = GALLERY.folder(name)
    assert {"README.md", "config.yaml", "options.py", "task.py"} <= {path.name for path in folder.iterdir()}
    pictures = list(folder.glob("*.png"))
    assert folder / f"{name}.png" in pictures
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for picture in pictures:
        assert picture.name in readme
        with Image.open(picture) as image:
            image.verify()
    for heading in ("What it does", "Data", "Run it", "Result", "Your own data"):
        assert f"## {heading}" in readme


@pytest.mark.parametrize("name", GALLERY.names())
def test_a_recipes_config_is_valid_and_its_task_reads_in_one_sitting(name: str) -> None:
    loaded = load(name)
    assert loaded.task.recipe == name
    assert len(loaded.task.file.read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize("name", GALLERY.names())
def test_a_recipe_warms_up_for_as_many_steps_as_its_config_says_and_shorter_runs_for_fewer(name: str) -> None:
    text = (GALLERY.folder(name) / "config.yaml").read_text(encoding="utf-8")
    told = re.search(r"warmup_fraction: \S+ +# (\d+) steps\n", text)
    assert "warmup_steps" not in text and ("warmup" in text) == (told is not None)
    schedule = load(name, ["train.steps=2"]).config.schedule
    assert schedule.warmup(Span(2)) == 0
    assert schedule.warmup(provenance.span(name)) == (int(told[1]) if told else 0)


@pytest.mark.parametrize("name", GALLERY.names())
def test_data_that_a_recipe_carries_has_its_license_next_to_it(name: str) -> None:
    data = GALLERY.folder(name) / "data"
    if not data.is_dir():
        pytest.skip("carries no data")
    readme = (Path(data) / "README.md").read_text(encoding="utf-8")
    texts = [file.name for file in data.glob("LICENSE-*.txt")]
    assert "Licence:" in readme and texts and all(f"`{text}`" in readme for text in texts)


def test_the_licenses_of_the_distribution_are_those_of_all_that_it_carries() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [file for pattern in project["license-files"] for file in REPOSITORY.glob(pattern)]
    carried = {"Apache-2.0", *(file.stem.removeprefix("LICENSE-") for file in files if file.name != "LICENSE")}
    assert set(canonicalize_license_expression(project["license"]).split(" AND ")) == carried
    assert {file.parent for file in files} == {REPOSITORY, *GALLERY.root.glob("*/data")}


@pytest.mark.parametrize("name", GALLERY.names())
def test_a_recipe_says_in_a_line_what_it_is_and_how_long_it_takes(name: str) -> None:
    told = listing(name)
    assert told.summary and re.fullmatch(r"\d+ (seconds|minutes)", told.time)
    number, unit = told.time.split()
    seconds = int(number) * {"seconds": 1, "minutes": 60}[unit]
    assert (known_seconds(name) or 0) <= seconds <= ROWS[name].seconds


def quoted(readme: str) -> list[str]:
    """The numbers with a decimal point in the part on the result, but for bars of tables, links and what is marked."""
    _, _, part = OUTPUT.sub("", RUNS.sub("", MARKED.sub("", readme))).partition("## Result\n")
    return re.findall(r"(?<![\w./])\d+\.\d+(?![\w/])", part.partition("\n## ")[0])


def bars(name: str) -> list[float]:
    """The numbers that a recipe is held against."""
    return [bound for bar in ROWS[name].bars for bound in (bar.least, bar.most) if bound is not None]


@pytest.mark.parametrize("name", GALLERY.names())
def test_what_a_readme_says_of_results_is_taken_from_them(name: str) -> None:
    readme = (GALLERY.folder(name) / "README.md").read_text(encoding="utf-8")
    assert [found[2] for found in RUNS.finditer(readme)] == [name]
    assert set(quoted(readme)) <= {f"{bar:g}" for bar in bars(name)}


@pytest.mark.parametrize("name", GALLERY.names())
def test_the_projects_readme_tells_of_a_recipe_what_was_measured_and_its_time(name: str) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (row,) = (line for line in readme.splitlines() if line.startswith(f"| [`{name}`]"))
    assert f"| {listing(name).time} |" in MARKED.sub(r"\6", row)
    assert ("not measured yet" in row) == (not results(name)) == (MARKED.search(row) is None)
    assert not re.search(r"\d\.\d", MARKED.sub("", row))


@pytest.mark.parametrize("name", GALLERY.names())
def test_a_readme_says_which_bars_were_missed_and_which_were_not_measured(name: str) -> None:
    row, pairs = ROWS[name], latest(recorded(name), "peer")
    values = means(row, results(name), pairs)
    _, missed = verdict(row, values, known_seconds(name))
    _, _, told = (GALLERY.folder(name) / "README.md").read_text(encoding="utf-8").partition("## Result\n")
    assert (re.search(r"missed\W* \|", told) is not None) == bool(missed), missed
    is_incomplete = any(len(pairs if bar.by_peer else results(name)) < row.seeds for bar in row.bars)
    assert ("seeds measured)" in told or "Not measured yet" in told) == is_incomplete


def test_results_of_another_configuration_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"configuration": given, "seed": 0, "seconds": seconds, "metrics": {}}
             for given, seconds in ((provenance.configuration("digits"), 9.0), ("of old", 99.0))]  # fmt: skip
    (tmp_path / "digits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(recipes, "RESULTS", tmp_path)
    assert [line["seconds"] for line in results("digits")] == [9.0]
    assert known_seconds("digits") == 9.0


def test_results_count_of_a_configuration_that_was_shown_to_be_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = recipes.provenance.configuration("digits")
    lines = [{"configuration": "12345678", "seed": 0, "seconds": 9.0, "metrics": {}},
             {"configuration": "of old", "seed": 1, "seconds": 8.0, "metrics": {}},
             {"digests": {"configuration": "between"}, "same_as": "123456789abc"},
             {"digests": {"configuration": now}, "same_as": "between"}]  # fmt: skip
    monkeypatch.setattr(recipes, "RESULTS", tmp_path)
    for count, known in ((3, []), (4, [9.0])):
        (tmp_path / "digits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:count]), "utf-8")
        assert [line["seconds"] for line in results("digits")] == known


@pytest.mark.parametrize("name", tiered(GALLERY.names(), ("digits", "forecast")))
def test_what_a_recipes_config_names_of_another_comes_with_its_copy(name: str, tmp_path: Path) -> None:
    write_project(tmp_path / "mine", recipe=name)
    loaded = load(str(tmp_path / "mine" / "config.yaml"))
    assert loaded.task.folder == tmp_path / "mine"
    root = loaded.config.data.root
    if root is None:  # the task makes its data
        assert not loaded.declaration.reads
        return
    assert root is not None and root.is_relative_to(tmp_path / "mine") and any(root.iterdir())
    assert "../" not in (tmp_path / "mine" / "config.yaml").read_text(encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize("name", GALLERY.names())
def test_in_a_short_run_the_loss_falls_and_the_files_appear(name: str, tmp_path: Path) -> None:
    cache = private_directory(cache_directory())
    assert cache is not None
    (tmp_path / "cache").symlink_to(cache.parent)  # a run that is timed begins with an empty one
    training = train(name, ROWS[name].short, tmp_path)
    assert training.end.status == "done"
    losses = open_run(training.run.paths.root).metrics[ROWS[name].loss].value
    half = len(losses) // 2
    assert half and fmean(losses[-half:]) < fmean(losses[:half])
    assert any(key.startswith("test/") for key in training.end.metrics)
    assert list((training.run.paths.root / "checkpoints").glob("step-*"))


def test_the_gallery_has_at_most_70_megabytes() -> None:
    files = [path for path in GALLERY.root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) <= 70e6
