"""The documentation site: complete, without warnings, without broken links, without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from docs.site import api, build, commands, notebooks, reference
from docs.site.build import GENERATED
from docs.site.links import broken_links
from tests.docs.test_blocks import check_keys
from trainer import TrainerError
from trainer.cli.verbs import VERBS
from trainer.configs import RunConfig
from trainer.configs.problems import Place
from trainer.configs.reader import read_yaml

NOTEBOOKS = sorted(notebooks.FOLDER.glob("*.ipynb"))


def write(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("html", "line"),
    [
        ('<a href="b.html#there">', None),
        ('<a href="https://example.org/missing">', None),
        ('<a href="b.html#away">', "a.html: no anchor for b.html#away"),
        ('<a href="#away">', "a.html: no anchor for #away"),
        ('<a href="c.html">', "a.html: no file for c.html"),
        ('<img src="c.png">', "a.html: no file for c.png"),
        ('<script src="https://example.org/a.js">', "a.html: loads https://example.org/a.js"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "a.html: loads //example.org/a.css"),
    ],
)
def test_a_broken_link_is_found(html: str, line: str | None, tmp_path: Path) -> None:
    site = write(tmp_path, a=html, b='<h1 id="there">b</h1>')
    assert broken_links(site) == ([] if line is None else [line])


@pytest.mark.full
def test_the_site_builds_without_a_warning_and_its_search_knows_every_page(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    index = (site / "search.json").read_text(encoding="utf-8")
    generated = {name.replace(".md", ".html") for make in GENERATED for name in make()}
    assert generated < pages and len(pages) > 60
    assert [page for page in pages if page not in index and page != "index.html"] == []


def test_the_reference_has_a_page_with_a_valid_example_for_every_section() -> None:
    pages = reference.pages()
    index = pages["reference/index.md"]
    assert set(re.findall(r"^\| (?:\[)?`(\w+)`", index, flags=re.MULTILINE)) == set(RunConfig.model_fields)
    examples = read_yaml(reference.EXAMPLES.read_text(encoding="utf-8"), Place("examples")).value
    assert {f"reference/{name}.md" for name in examples} | {"reference/index.md"} == set(pages)
    for name, example in examples.items():
        check_keys(example)
        assert [*example] == [name.partition(".")[0]]


def test_the_reference_of_commands_has_every_verb_with_its_options() -> None:
    (page,) = commands.pages().values()
    assert re.findall(r"^## trainer (.+)$", page, flags=re.MULTILINE) == list(VERBS)
    assert "| `--threshold T` |" in page and "| `--debug` |" not in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert [row for row in rows if len(re.findall(r"(?<!\\)\|", row)) != 3] == []


def test_the_reference_of_python_has_every_public_name() -> None:
    import trainer.learner

    page = api._module("trainer.learner", trainer.learner)
    shown = set(re.findall(r"^## (\w+)$", page, flags=re.MULTILINE))
    assert shown >= {"Hook", "Learner", "SGD", "Task"} and "TYPE_CHECKING" not in shown
    assert "Learner(" in page and "### Learner.run" in page


def test_docstrings_become_lists_and_keep_their_code() -> None:
    text = "Adds `a<b`.\n\n    x = 1\n\nArgs:\n    x: a <number>,\n        or more.\n\nRaises:\n    ValueError: no."
    shown = api._markdown(text)
    assert "Adds `a<b`." in shown and "\n    x = 1\n" in shown
    assert "**Args:**\n\n- `x`: a \\<number>,\n  or more." in shown and "- `ValueError`: no." in shown


def test_the_menu_has_every_page_once_and_expands_folders(tmp_path: Path) -> None:
    for name in ("index.md", "api/index.md", "api/b.md", "api/a.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    menu = [{"Home": "index.md"}, {"API": ["api/"]}]
    assert build._menu(menu, tmp_path) == [{"Home": "index.md"}, {"API": ["api/index.md", "api/a.md", "api/b.md"]}]
    for wrong in ([{"API": ["api/"]}], [*menu, {"Gone": "gone.md"}]):
        with pytest.raises(TrainerError, match="the menu and the pages differ"):
            build._menu(wrong, tmp_path)


def test_a_link_to_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    texts = {"docs/a.md": "[b](b.md#x) [c](../LICENSE) ![d](gone.png)", "docs/b.md": ""}
    with pytest.raises(TrainerError, match=r"docs/a.md.*\n.*gone.png"):
        build._with_links("docs/a.md", texts["docs/a.md"], texts, tmp_path)
    shown = build._with_links("trainer/recipes/r/README.md", "[b](../../../docs/b.md#x)", texts, tmp_path)
    assert shown == "[b](../../b.md#x)"


def test_every_link_between_pages_leads_to_a_file_and_the_menu_has_every_page(tmp_path: Path) -> None:
    build.stage(tmp_path)
    assert build._menu(yaml.safe_load(build.SETTINGS.read_text(encoding="utf-8"))["nav"], tmp_path)
    assert (tmp_path / "recipes/digits/index.md").is_file() and (tmp_path / "reference/train.md").is_file()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_its_results(notebook: Path) -> None:
    text, pictures = notebooks.page(notebook)
    assert text.startswith("# ") and text.count("```python") >= 5
    assert pictures and "Traceback" not in text and "/tmp/" not in text


@pytest.mark.full
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository))
    notebooks.run(notebook, tmp_path)
