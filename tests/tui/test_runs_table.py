"""The table of runs: best values, settings that differ, tags, sorting and filtering."""

from __future__ import annotations

from pathlib import Path

import synthetic_run
from conftest import Clock, dashboard, until

from trainer.rundir import MetricEvent, ResumedEvent, RunPaths, write_note, write_tags
from trainer.tui.panels.runs import differing_keys, short_keys
from trainer.tui.validations import Validations


def two_runs(folder: Path) -> RunPaths:
    other = synthetic_run.write_run(folder / "digits-8", epochs=6)
    other.config(1).write_text(synthetic_run.CONFIG.replace("0.001", "0.1"))
    write_tags(other, ["baseline", "slow"])
    write_note(other, "high learning rate\nto compare")
    return synthetic_run.write_run(folder / "digits-7")


async def test_each_run_has_its_best_value_its_tags_and_the_settings_that_differ(tmp_path: Path, clock: Clock) -> None:
    app = dashboard(two_runs(tmp_path), clock)
    async with app.run_test(size=(180, 40)) as pilot:
        await pilot.press("6")
        text = await until("baseline slow", app, pilot)
        head = next(line for line in text.splitlines() if "best valid/accuracy" in line)
        assert "learning_rate" in head and "epochs" not in head and "tags" in head and "note" in head
        assert any("digits-8" in line and "high learning rate" in line for line in text.splitlines())
        rows = {
            line.split()[1].lstrip("▶"): line for line in text.splitlines() if "✓" not in line and "digits-" in line
        }
        assert any("0.9847" in line and "960" in line and "0.001" in line for line in text.splitlines())
        assert any("0.9797" in line and "600" in line and "0.1" in line for line in text.splitlines()), rows


async def test_runs_are_sorted_and_filtered(tmp_path: Path, clock: Clock) -> None:
    app = dashboard(two_runs(tmp_path), clock)
    async with app.run_test(size=(160, 40)) as pilot:

        def listed(text: str) -> list[str]:
            table = text.split("╰")[0].splitlines()
            return [
                word for line in table for word in line.replace("▶", " ").split() if word in ("digits-7", "digits-8")
            ]

        await pilot.press("6")
        await until("baseline slow", app, pilot)
        await pilot.press("s")
        assert listed(await until("runv", app, pilot))[-2:] == ["digits-7", "digits-8"]
        await pilot.press("r")
        assert listed(await until("run^", app, pilot))[-2:] == ["digits-8", "digits-7"]
        await pilot.press("slash", *"baseline", "enter")
        text = await until("with 'baseline'", app, pilot)
        assert listed(text)[-1] == "digits-8" and "B digits-8" not in text
        await pilot.press("enter")  # the run under the cursor of the filtered table
        await until("epoch 6/6", app, pilot)


def test_settings_that_are_equal_in_all_runs_have_no_column() -> None:
    configs = [{"a.rate": 1, "b.rate": 2, "c": 3, "name": "x"}, {"a.rate": 2, "b.rate": 3, "c": 3, "name": "y", "d": 1}]
    assert differing_keys(configs) == ["a.rate", "b.rate", "d"]
    assert short_keys(["a.rate", "optimizer.learning_rate"]) == ["a.rate", "learning_rate"]
    long = ["optimizer.learning_rate", "discriminator.learning_rate"]
    assert short_keys(long) == long


def test_validations_are_read_incrementally_and_taken_back(tmp_path: Path) -> None:
    paths = synthetic_run.make_folder(tmp_path / "run")
    validations = Validations(paths.events)
    validations.poll(1.0)
    assert validations.at_end and not validations.series
    for step in range(1, 6):
        synthetic_run.append(paths, MetricEvent(step, 0.1, "train", {"loss": 9.0}), 1.0)
        synthetic_run.append(paths, MetricEvent(step, 0.1, "valid", {"accuracy": step / 10}), 1.0)
    with paths.events.open("ab") as file:
        file.write(b'{"kind":"metric","split":"valid"')  # a line that is still being written
    validations.poll(1.0)
    assert list(validations.series) == ["valid/accuracy"]
    assert validations.series["valid/accuracy"].best("max") == (5.0, 0.5)
    with paths.events.open("ab") as file:
        file.write(b"}\n")
    synthetic_run.append(paths, ResumedEvent(3), 2.0, attempt=2)
    validations.poll(1.0)
    assert validations.series["valid/accuracy"].best("max") == (3.0, 0.3)
