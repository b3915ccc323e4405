"""Recipes' bars and results: what counts, what is stale, and what is missed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import ledger
import lowered
import provenance
import recipe_minutes
import recipes
from harness import MISSED, UNTOLD, as_json
from recipes import Bar, Row

from trainer.engine.nn import initializers
from trainer.engine.targets.cpu import templates
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.rundir import PhaseEvent

NOW = {
    "recipe": "digits",
    "revision": "abc",
    "digests": dict.fromkeys(("program", "runtime", "learner", "recipe", "configuration", "data"), "now"),
    "versions": {"python": "3.11"},
    "machine": {"threads": 2},
}


def before(changed: str) -> dict[str, Any]:
    """The origin of a line that was measured before something changed."""
    if changed in NOW["digests"]:
        return {**NOW, "digests": {**NOW["digests"], changed: "before"}}
    return {**NOW, changed: {"of": "before"}} if changed else dict(NOW)


def runs(origin: dict[str, Any], accuracy: float = 0.995, seconds: float | None = 9.0) -> list[dict[str, Any]]:
    return [{**origin, "seed": seed, "seconds": seconds, "metrics": {"test/accuracy": accuracy}} for seed in range(3)]


def standing(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return recipes.standing("digits", lines, NOW)


@pytest.fixture(autouse=True)
def plain_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipes.ROWS, "digits", Row(60, "valid/accuracy", (Bar("test/accuracy", least=0.99),)))


def test_results_of_what_there_is_now_count() -> None:
    told = standing(runs(before("")))
    assert (told["ok"], told["seeds"], told["seconds"], told["stale"], told["missed"]) == (True, "3 of 3", 9.0, [], [])


@pytest.mark.parametrize("changed", ["program", "runtime", "learner", "recipe", "configuration", "data", "versions"])
def test_results_of_what_has_changed_since_are_stale(changed: str) -> None:
    told = standing(runs(before(changed)))
    assert (told["ok"], told["seeds"], told["means"], told["seconds"]) == (None, "0 of 3", {}, None)
    assert told["stale"] == [f"run of seed {seed} at abc: {changed}" for seed in range(3)]


def test_results_count_while_the_machine_that_they_name_would_have_the_same_programs() -> None:
    machine = {"threads": 2, "lowering": {"vectors": 32}}
    lines = runs({**NOW, "machine": machine})
    wide = provenance.lowering_of(lines[0])
    here = {**NOW, "digests": {**NOW["digests"], "program": "of another machine"}}
    told = recipes.standing("digits", lines, {**here, "programs": {wide: "now"}})
    assert (told["ok"], told["seeds"], told["seconds"], told["stale"]) == (True, "3 of 3", 9.0, [])
    told = recipes.standing("digits", lines, {**here, "programs": {wide: "changed"}})
    assert (told["ok"], told["seconds"]) == (None, None)
    assert told["stale"] == [f"run of seed {seed} at abc: program" for seed in range(3)]


def test_a_program_is_digested_for_a_machine_whatever_was_lowered_before() -> None:
    wide, narrow = (as_json(asdict(machine)) for machine in (AVX512, NARROW))
    digest = provenance.program("digits", wide)
    lowered.program_digest("adding", AVX512)  # leaves constants that are older than all of the next program's nodes
    assert digest == lowered.program_digest("digits", AVX512)[:12] != provenance.program("digits", narrow)


@pytest.mark.parametrize("changed", ["program", "runtime", "learner", "recipe", "versions"])
def test_metrics_stay_current_while_a_short_training_has_the_same_bits(changed: str) -> None:
    lines = [{**line, "fingerprint": "bits"} for line in runs(before(changed))]
    told = standing([*lines, {**NOW, "fingerprint": "bits"}])
    assert (told["seeds"], told["means"], told["seconds"]) == ("3 of 3", {"test/accuracy": pytest.approx(0.995)}, None)
    assert told["stale"] == [f"seconds of seed {seed} at abc: {changed}" for seed in range(3)]
    assert standing([*lines, {**NOW, "fingerprint": "others"}])["seeds"] == "0 of 3"
    assert standing([*lines, {**before("data"), "fingerprint": "bits"}])["seeds"] == "0 of 3", "of other data"
    assert standing([*runs(before(changed)), {**NOW, "fingerprint": "bits"}])["seeds"] == "0 of 3", "without one"


@pytest.mark.parametrize("changed", ["configuration", "data"])
def test_a_short_training_says_nothing_of_what_it_does_not_take_part_in(changed: str) -> None:
    lines = [{**line, "fingerprint": "bits"} for line in runs(before(changed))]
    assert standing([*lines, {**NOW, "fingerprint": "bits"}])["seeds"] == "0 of 3"


def test_lines_that_do_not_say_what_they_measured_are_stale() -> None:
    line = {"revision": "abc", "seed": 0, "seconds": 9.0, "metrics": {"test/accuracy": 1.0}}
    assert standing([line])["stale"] == ["run of seed 0 at abc: no digests"]


def test_a_verdict_needs_all_seeds_and_takes_the_latest_line_of_each() -> None:
    good, bad = runs(before("")), runs(before(""), accuracy=0.9)
    assert (standing(good[:2])["ok"], standing(good[:2])["seeds"]) == (None, "2 of 3")
    assert standing([*bad, *good])["ok"] is True and standing([*good, *bad])["ok"] is False
    assert standing(runs(before(""), seconds=None))["ok"] is None, "nothing was timed"
    assert standing([*good, *runs(before(""), seconds=None)])["seconds"] == 9.0, "a run without a time supersedes none"
    assert standing(runs(before(""), seconds=61.0))["missed"] == ["seconds 61.0, bar at most 60"]


def test_a_bar_that_was_missed_is_reported_though_it_does_not_gate_and_though_it_is_stale() -> None:
    bars = (Bar("a", least=0.98, most=1.02, by_peer=True), Bar("a", least=0.276, gates=False, note="original"))
    recipes.ROWS["digits"] = Row(60, "valid/a", bars)
    lines = [
        {**NOW, "seed": seed, "seconds": 9.0, "metrics": {"a": 0.2746}, "ours": {"a": 1.01}, "peer": {"a": 1.0}}
        for seed in range(3)
    ]
    missed = "a 0.2746, bar at least 0.276 (original)"
    assert (standing(lines)["ok"], standing(lines)["missed"]) == (True, [missed])
    old = [{**line, **{"digests": before("program")["digests"]}} for line in lines]
    assert (standing(old)["ok"], standing(old)["missed"]) == (None, [f"{missed}, stale"])
    worse = [{**line, "ours": {"a": 1.03}} for line in lines]
    assert standing(worse)["ok"] is False and "a by PyTorch's 1.03" in standing(worse)["missed"][0]
    alone = [{key: value for key, value in line.items() if key != "peer"} for line in lines]
    assert (standing(alone)["ok"], standing(alone)["pairs"]) == (None, "0 of 3")


@pytest.mark.parametrize("place", range(6))
def test_a_distance_that_is_nan_reaches_no_bar(place: int) -> None:
    values = [8.0, 6.0, 4.0, 3.0, 2.0, 1.0]

    def missed() -> list[str]:
        run: Any = SimpleNamespace(metrics={"valid/ema/frechet": SimpleNamespace(value=values)})
        return recipes.verdict(recipes.ROWS["lsgan"], recipes.frechet_by_its_first(run), None)[1]

    assert not missed()
    for value in (math.nan, math.inf):
        values[place] = value
        assert bool(missed()) is (place not in (1, 2))  # these two count for nothing


def test_results_that_are_no_numbers_are_null_and_miss_their_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipes, "RESULTS", tmp_path)
    monkeypatch.setattr(provenance, "origin", lambda name: NOW)
    monkeypatch.setattr(provenance, "configuration", lambda name: "now")
    assert recipes.main(["digits", "--table"]) == UNTOLD, "no results"
    for line in runs(before(""), accuracy=math.nan):
        ledger.append(tmp_path / "digits.jsonl", line)
    assert recipes.main(["digits", "--table"]) == MISSED
    assert "MISSED" in capsys.readouterr().out
    text = (tmp_path / "digits.jsonl").read_text()
    assert [json.loads(each)["metrics"]["test/accuracy"] for each in text.splitlines()] == [None] * 3


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "results.jsonl"
    path.write_text('{"of": "old"}\n', encoding="utf-8")  # lines from before they were chained
    for number in range(3):
        ledger.append(path, {"number": number})
    return path


def test_lines_are_read_as_they_were_appended(file: Path) -> None:
    assert [line.get("number") for line in ledger.read(file)] == [None, 0, 1, 2]


@pytest.mark.parametrize("line", range(4))
def test_a_line_that_was_edited_is_found(file: Path, line: int) -> None:
    lines = file.read_text().splitlines()
    lines[line] = lines[line].replace("old", "new").replace('"number": ', '"number": 1')
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="edited"):
        ledger.read(file)


@pytest.mark.parametrize("line", range(3))
def test_a_line_that_was_removed_is_found(file: Path, line: int) -> None:
    lines = file.read_text().splitlines()
    del lines[line]
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="removed"):
        ledger.append(file, {})


def test_two_branches_that_appended_are_merged_by_keeping_both(file: Path) -> None:
    base = file.read_text()
    ledger.append(file, {"branch": "one"})
    one = file.read_text().removeprefix(base)
    file.write_text(base)
    ledger.append(file, {"branch": "two"})
    file.write_text(file.read_text() + one)
    both = [line["id"] for line in ledger.read(file)[-2:]]
    assert sorted(ledger.append(file, {})["after"]) == sorted(both)
    file.write_text(file.read_text().replace(one, ""))
    with pytest.raises(ValueError, match="removed"):
        ledger.read(file)


@pytest.fixture
def winograd_changed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Changes the text of a kernel that convolutions of the numerics class "fast" have."""
    template = templates.WINOGRAD

    def kernel(*given: Any) -> Any:
        made = template.kernel(*given)
        render = made.render
        made.render = lambda name: render(name) + "; changed\n"  # type: ignore[method-assign]
        return made

    changed = replace(template, kernel=kernel)

    def change() -> None:
        monkeypatch.setattr(templates, "WINOGRAD", changed)
        others = [each for each in templates.TEMPLATES if each is not template]
        monkeypatch.setattr(templates, "TEMPLATES", (changed, *others))

    yield change


@pytest.mark.full
def test_the_rows_whose_kernels_text_has_changed_become_stale(winograd_changed: Callable[[], None]) -> None:
    def programs() -> dict[str, str]:
        return {name: lowered.program_digest(name) for name in ("digits", "clothes")}

    first = programs()
    assert programs() == first
    winograd_changed()
    then = programs()
    assert then["digits"] == first["digits"], "it has no such kernel"
    assert then["clothes"] != first["clothes"]

    def told(recipe: str) -> Any:
        origin, now = ({**NOW, "digests": {**NOW["digests"], "program": each[recipe]}} for each in (first, then))
        return recipes.standing("digits", runs(origin), now)

    assert (told("digits")["ok"], told("digits")["stale"]) == (True, [])
    assert told("clothes")["stale"] == [f"run of seed {seed} at abc: program" for seed in range(3)]


def test_the_values_that_a_recipe_begins_with_are_part_of_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    first = lowered.program_digest("digits")
    symmetric = initializers._symmetric
    monkeypatch.setattr(initializers, "_symmetric", lambda *given: 2 * symmetric(*given))
    assert lowered.program_digest("digits") != first


def test_comments_and_formatting_change_no_digest_and_statements_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path)
    file = tmp_path / "a.py"

    def digest(text: str) -> str:
        file.write_text(text)
        return provenance.code_digest([file])

    assert digest('"""One."""\nx = f(1)\n') == digest('"""Two."""\n# why\nx = f(\n    1\n)\n')
    assert digest("x = f(1)\n") != digest("x = f(2)\n")


def test_a_recipe_depends_on_the_parts_that_it_imports_and_on_theirs() -> None:
    def names(recipe: str) -> set[str]:
        return {path.name for path in provenance.recipe_files(provenance.PACKAGE / "recipes" / recipe)}

    assert {"task.py", "options.py", "cutmix.py", "resnet.py"} <= names("clothes")
    assert {"features.py", "resnet.py"} <= names("lsgan") and "cutmix.py" not in names("lsgan")


def test_the_revision_is_that_of_the_code_and_a_file_that_git_does_not_know_changes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        provenance.subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path), *words],
            check=True, capture_output=True,
        )  # fmt: skip

    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "a.py").write_text("")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert not (revision := provenance.revision()).endswith("+")
    (tmp_path / "results.jsonl").write_text("{}")
    git("add", ".")
    git("commit", "-m", "results")
    assert provenance.revision() == revision
    (tmp_path / "trainer" / "b.py").write_text("")
    assert provenance.revision().endswith("+")


@pytest.mark.full
@pytest.mark.parametrize("step", [1, 5])
def test_a_run_that_was_interrupted_goes_on_where_it_was(step: int, tmp_path: Path) -> None:
    short = ["data.workers=0", "train.epochs=null", "train.steps=6", "train.log_every_steps=1",
             "checkpoint.every_steps=2", "autotune.mode=off"]  # fmt: skip
    whole = recipes.train("digits", short, tmp_path / "whole")
    (tmp_path / "once.py").write_text(
        "import os\n"
        "from pathlib import Path\n"
        "from trainer.learner import Hook\n\n\n"
        "class Once(Hook):\n"
        "    def after_step(self, training, moment):\n"
        "        there = Path(__file__).with_suffix('.killed')\n"
        f"        if moment.step == {step} and not there.exists():\n"
        "            there.touch()\n"
        "            os._exit(9)\n"
    )
    short.append(f"hooks=[{{name: '{tmp_path}/once.py:Once'}}]")
    with pytest.raises(RuntimeError, match="ended with"):
        recipes.train("digits", short, tmp_path / "killed")
    resumed = recipes.train("digits", short, tmp_path / "killed")
    assert resumed.end.metrics == whole.end.metrics and resumed.end.step == 6
    assert whole.seconds is not None and resumed.seconds is None, "an interrupted run has no time"
    assert resumed.taken == resumed.run.seconds > 0, "but its attempts have"
    again = recipes.train("digits", short, tmp_path / "killed")
    assert again.end.metrics == whole.end.metrics, "a run that is over is not begun again"
    again = recipes.train("digits", short, tmp_path / "whole")
    assert (again.seconds, again.taken) == (whole.seconds, whole.seconds), "and keeps its time"


@pytest.mark.parametrize(("ours", "peer"), [(0.0, 0.0), (0.2, 0.0), (0.0, 0.2)])
def test_a_pair_of_the_same_minutes_counts_where_nothing_else_used_the_machine(
    ours: float, peer: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def trained(*arguments: Any) -> tuple[dict[str, float], int]:
        given.append(arguments)
        return {"loss": 1.6}, 70

    monkeypatch.setattr(recipe_minutes, "after_the_same_minutes", trained)
    monkeypatch.setattr(recipes, "Watch", lambda: SimpleNamespace(disturbance=peer))
    end: Any = SimpleNamespace(metrics={"test/loss": 1.5, "valid/loss": 1.4})
    line = recipes.pair_by_minutes("vit", ["seed=1"], recipes.Training(SimpleNamespace(), end, 9.0, ours), "python")  # type: ignore[arg-type]
    counts, where = (True, "peer") if ours == peer == 0 else (False, "disturbed_peer")
    assert given == [("vit", "python", ["seed=1"], 9.0)]
    assert line == {"ours": {"test/loss": 1.5}, where: {"test/loss": 1.6}, "peer_steps": 70, "disturbance": ours + peer}
    row = Row(60, "valid/loss", (Bar("test/loss", most=1.0, by_peer=True),), by_minutes=True)
    pairs = recipes.latest([{**line, "seed": 0}], "peer")
    assert (recipes.means(row, [], pairs) == {"test/loss by PyTorch's": pytest.approx(1.5 / 1.6)}) is counts


@pytest.mark.parametrize(
    ("words", "reason"), [(("vit", "threads=1"), "found threads=1"), (("clothes", "--short"), "clothes are not")]
)
def test_pytorch_is_trained_only_next_to_the_recipe_as_it_is(
    words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        recipes.main([*words, "--beside", "python"])
    assert reason in capsys.readouterr().err


def test_pytorch_gets_the_minutes_of_all_attempts_of_a_run_that_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []

    def trained(name: str, python: str, overrides: list[str], seconds: float) -> tuple[dict[str, float], int]:
        given.append(seconds)
        return {"loss": 1.6}, 70

    monkeypatch.setattr(recipe_minutes, "after_the_same_minutes", trained)
    run, end = SimpleNamespace(seconds=14.0), SimpleNamespace(metrics={"test/loss": 1.5})
    recipes.pair_by_minutes("vit", [], recipes.Training(run, end, None, 0.0), "python")  # type: ignore[arg-type]
    assert given == [14.0]


@pytest.mark.parametrize(
    ("left", "with_peer", "told"),
    [(30.0, False, "40 s left"), (30.0, True, "85 s left"), (None, True, "2 min left"), (300.0, True, "10 min left")],
)
def test_what_is_left_counts_this_run_pytorchs_and_those_to_come(
    left: float | None, with_peer: bool, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipes, "known_seconds", {"vit": 50.0, "digits": 10.0}.get)
    phases = {
        "load": PhaseEvent("load", "finished"),
        "train": PhaseEvent("train", "progress", done=5, total=20, unit="steps", remaining=left),
    }
    recipes.report(["vit", "digits"], with_peer, SimpleNamespace(seconds=15.0, phases=phases))  # type: ignore[arg-type]
    assert told in (shown := capsys.readouterr().err) and shown.startswith("vit: train 5 of 20 steps; ")
