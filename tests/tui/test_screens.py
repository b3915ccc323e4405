"""The screens beside the overview, on a run that has something for each of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import synthetic_run
from conftest import Clock, dashboard, screen_text, settle, until

from trainer.rundir import MetricEvent, ReportEvent, RunPaths, SampleEvent, take_requests


@pytest.fixture
def shown(tmp_path: Path) -> RunPaths:
    """A finished run with samples, reports and tuning decisions; beside it a shorter one with another rate."""
    other = synthetic_run.write_run(tmp_path / "digits-8", epochs=3)
    other.config(1).write_text(synthetic_run.CONFIG.replace("0.001", "0.1"))
    return synthetic_run.write_run(tmp_path / "digits-7", has_shown=True)


async def test_metrics_has_a_chart_for_each_metric(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        text = await settle(app, pilot)
        for part in ("3 metrics", "loss  train", "accuracy  train", "learning_rate  train", "smoothing 0.9"):
            assert part in text
        await pilot.press("slash", *"accu", "enter")
        text = await settle(app, pilot)
        assert "1 metric with 'accu'" in text and "loss  train" not in text
        await pilot.press("slash", "escape")
        assert "1 metric with 'accu'" in await settle(app, pilot)
        await pilot.press("slash", "ctrl+u", "enter")
        assert "3 metrics" in await settle(app, pilot)


async def test_all_charts_share_zoom_and_cross_hair(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "right")
        text = await settle(app, pilot)
        assert "values at step 960" in text and text.count("@ 960") == 3
        for _ in range(20):
            await pilot.press("left")
        await pilot.press("plus")
        text = await settle(app, pilot)
        assert "values at step 640" in text and "steps 320 to 800" in text and text.count("step 800") >= 3
        await pilot.press("0")
        assert "values at" not in await settle(app, pilot)


async def test_one_chart_can_have_the_whole_screen(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "tab", "enter")
        text = await settle(app, pilot)
        assert (
            "accuracy  train" in text
            and "best 0.9847 at 960" in text
            and "loss  train" not in text
            and "learning_rate" not in text
        )
        await pilot.press("l", "m")
        text = await settle(app, pilot)
        assert "(log)" in text and "smoothing 0.99" in text


async def test_kernels_lists_every_decision_and_sorts_it(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        text = await settle(app, pilot)
        assert "12 decided, 1.51x over all kernels" in text and "1 out of memory" in text and "3.06x" in text
        shares = [line.split("%")[0].split()[-1] for line in text.splitlines() if "x56x56" in line]
        assert shares[:3] == ["12.5", "9.2", "8.3"], "what takes most of a step stands first"
        assert "55% of a step of 24 ms" in text
        await pilot.press("s", "s", "s", "r")  # by speed-up, the largest first
        listed = (await settle(app, pilot)).splitlines()
        rows = [line for line in listed if "conv 3x3" in line or "matmul" in line]
        gains = [float(next(cell for cell in row.split() if cell.endswith("x")).rstrip("x")) for row in rows]
        assert gains == sorted(gains, reverse=True) and len(gains) == 12
        await pilot.press("slash", *"matmul", "enter")
        text = await settle(app, pilot)
        assert "conv 3x3" not in text and text.count("matmul") == 7  # six rows and the title


async def test_samples_shows_pictures_and_texts_and_their_history(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        text = await settle(app, pilot)
        for part in (
            "step 120  (newest of 2)",
            "valid/cells",
            "valid/plain",
            "cells at 120",
            "▀▀▀",
            "to be or not",
        ):
            assert part in text
        await pilot.press("left")
        text = await settle(app, pilot)
        assert "step 60  (1 back of 2)" in text and "cells at 60" in text
        await pilot.press("left", "right", "enter")
        text = await settle(app, pilot)
        assert "red 0.93" in text and "valid/plain" not in text
        await pilot.press("b")
        assert "red 0.93" not in await settle(app, pilot)


async def test_a_sample_whose_file_is_gone_is_said_to_be(shown: RunPaths, clock: Clock) -> None:
    synthetic_run.append(shown, SampleEvent(999, "valid", "gone", "samples/gone.png"), 40.0)
    synthetic_run.append(shown, SampleEvent(999, "valid", "outside", "../digits-8/config-1.yaml"), 40.0)
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        text = await settle(app, pilot)
    assert text.count("can't be read") == 2 and "task: digits" not in text


async def test_without_colour_pictures_are_shades(
    shown: RunPaths, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = dashboard(shown, clock, environment={"LC_ALL": "C"})
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        text = await settle(app, pilot)
    assert text.isascii() and "#" in text


async def test_evaluation_shows_matrix_curves_and_table(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("4")
        text = await settle(app, pilot)
        assert "valid/confusion  step 120  (1 of 5)" in text and "22 of 25 (88.0%)" in text
        assert any(line.split()[1:5] == ["cat", "80", "20", "·"] for line in text.splitlines())
        assert "predicted (% of the true class)" in text and "predicted dog, true cat  2 (20% of cat)" in text
        await pilot.press("percent_sign")
        text = await settle(app, pilot)
        assert any(line.split()[1:5] == ["cat", "8", "2", "·"] for line in text.splitlines())
        assert "predicted (counts)" in text
        await pilot.press("tab")
        assert "true positive rate over false positive rate  A cat  B dog" in await settle(app, pilot)
        await pilot.press("tab", "s", "s", "r")
        text = await settle(app, pilot)
        assert text.index("cat") < text.index("dog  ")  # nan comes last, also the other way round
        await pilot.press("tab")
        text = await settle(app, pilot)
        assert "AP50 0.697" in text and "precision at IoU 0.5 over recall  A cat" in text
        await pilot.press("v")
        text = await settle(app, pilot)
        assert any(line.split()[1:4] == ["dog", "2", "0.31"] for line in text.splitlines())
        await pilot.press("shift+tab")
        await pilot.press("shift+tab", "shift+tab")
        assert "(1 of 5)" in await settle(app, pilot)


async def test_evaluation_lists_the_worst_items_with_their_pictures(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("4", "left")
        text = await settle(app, pilot)
        assert "valid/worst_items  step 120" in text and "worst 1/photo" in text
        assert [line.split()[2:4] for line in text.splitlines() if "predicted" in line and "true" in line][:3] == [
            ["6.25", "predicted"], ["3.5", "predicted"], ["nan", "predicted"],
        ]  # fmt: skip
        assert "/data/animals/valid/000017.jpg" in text and any("▀" in line for line in text.splitlines())
        await pilot.press("s", "s", "r", "home")  # by score, the other way round: nan comes last all the same
        text = await settle(app, pilot)
        assert "worst 1/photo" in text
        await pilot.press("down")
        text = await settle(app, pilot)
        assert "worst 2/photo" in text and "/data/animals/valid/000004.jpg" in text
        await pilot.press("enter")
        text = await settle(app, pilot)
        assert "worst 2/photo" in text and "000004.jpg" not in text and "predicted bird, true cat" in text
        assert "cat" in next(line for line in text.splitlines() if "▀cat" in line or " cat" in line)
        await pilot.press("enter", "down")
        assert "worst 3/photo" in await settle(app, pilot)


async def test_a_click_chooses_an_item_and_a_double_click_enlarges_its_picture(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("4", "left")
        lines = (await settle(app, pilot)).splitlines()
        row = next(y for y, line in enumerate(lines) if "3.5  predicted" in line)
        await pilot.click(offset=(12, row))
        assert "worst 2/photo" in await settle(app, pilot)
        await pilot.click(offset=(80, 10))  # beside the list nothing is chosen
        assert "worst 2/photo" in await settle(app, pilot)
        await pilot.click(offset=(80, 10), times=2)
        assert "000004.jpg" not in await settle(app, pilot)


async def test_worst_items_without_pictures_are_a_list(shown: RunPaths, clock: Clock) -> None:
    items = [{"score": 2.0 - rank, "item": rank, "source": f"row {rank}"} for rank in range(2)]
    report = {"kind": "worst_items", "score": "loss", "items": items}
    (shown.reports / "listed.json").write_text(json.dumps(report))
    synthetic_run.append(shown, ReportEvent(999, "valid", "listed", "reports/listed.json", "worst_items"), 40.0)
    app = dashboard(shown, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        while "valid/listed" not in (text := await settle(app, pilot)):
            await pilot.press("tab")
        assert any(line.split()[1:5] == ["▶1", "2", "row", "0"] for line in text.splitlines())


async def test_a_damaged_report_is_said_to_be(shown: RunPaths, clock: Clock) -> None:
    (shown.reports / "torn.json").write_text('{"kind": "confusion_matrix", "counts": [[1, 2], ')
    (shown.reports / "strange.json").write_text('{"kind": "confusion_matrix", "counts": "none", "mean": 0.5}')
    app = dashboard(shown, clock)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("4")
        for name, told in (("torn", "missing or damaged"), ("strange", "mean 0.5")):
            synthetic_run.append(shown, ReportEvent(999, "valid", name, f"reports/{name}.json"), 40.0)
            await settle(app, pilot)
            await pilot.press("shift+tab")
            while f"valid/{name}" not in await settle(app, pilot):
                await pilot.press("tab")
            assert told in await settle(app, pilot)


async def test_runs_lists_its_neighbours_lays_curves_over_each_other_and_follows_one(
    shown: RunPaths, clock: Clock
) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        text = await until("A digits-7", app, pilot)
        assert "2 in" in text and "digits-8" in text and "B digits-8" not in text
        first = next(line for line in text.splitlines() if "▶" in line)
        await pilot.press("down" if "digits-7" in first else "up", "space")
        text = await until("B digits-8", app, pilot)
        assert "A digits-7" in text and "valid/accuracy" in text
        await pilot.press("tab")
        assert "valid/loss" in await settle(app, pilot)
        await pilot.press("d")
        text = await settle(app, pilot)
        assert "optimizer.learning_rate" in text and "0.1" in text and "train.epochs" not in text
        await pilot.press("enter")
        text = await settle(app, pilot)
        assert "epoch 3/3" in text and "phases" in text and app.feed.paths.name == "digits-8"


async def test_the_log_is_cut_down_by_level_and_text(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        assert "done test/accuracy" in await settle(app, pilot)
        await pilot.press("f")
        text = await settle(app, pilot)
        assert "log  warnings and errors" in text and "3 of 10000 pictures are blank" in text
        assert "done test/accuracy" not in text
        await pilot.press("f", "f", "slash", *"Checkpoint at step 960", "enter")
        text = await settle(app, pilot)
        assert "with 'Checkpoint at step 960'" in text and "checkpoint at step 960" in text
        assert "checkpoint at step 840" not in text


async def test_the_config_is_searched(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("7", "slash", *"rate", "enter")
        text = await settle(app, pilot)
    assert "learning_rate: 0.001" in text and "batch_size" not in text


async def test_what_is_typed_does_nothing_else(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", *"qx2cp?", "backspace")
        text = await settle(app, pilot)
        assert "qx2cp" in text and app.is_running and take_requests(running) == []
        await pilot.press("ctrl+c")
        assert "with 'qx2cp'" not in await settle(app, pilot)


async def test_a_screen_without_anything_says_so(tmp_path: Path, clock: Clock) -> None:
    app = dashboard(synthetic_run.make_folder(tmp_path / "young"), clock)
    told = (
        "no metrics yet",
        "no samples yet",
        "no report yet",
        "nothing autotuned in this run",
    )
    async with app.run_test(size=(80, 24)) as pilot:
        for key, words in zip("2345", told, strict=True):
            await pilot.press(key)
            assert words in await settle(app, pilot)


async def test_what_was_chosen_on_a_screen_stays(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "l", "5", "1", "2")
        assert "(log)" in await settle(app, pilot)


async def test_a_hundred_metrics_are_all_within_reach(tmp_path: Path, clock: Clock) -> None:
    paths = synthetic_run.make_folder(tmp_path / "many")
    for step in (1, 2):
        synthetic_run.append(paths, MetricEvent(step, 0.0, "train", {f"m{at:03}": at + step for at in range(100)}), 1.0)
    app = dashboard(paths, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        assert "100 metrics" in await settle(app, pilot) and "m000" in screen_text(app)
        await pilot.press("end")
        text = await settle(app, pilot)
        assert "▶ m099" in text and "m000" not in text
        await pilot.press("pageup")
        assert "m099" not in await settle(app, pilot)


@pytest.mark.parametrize("size", [(80, 24), (60, 14), pytest.param((200, 60), marks=pytest.mark.full)])
async def test_every_screen_fits_the_terminal(shown: RunPaths, clock: Clock, size: tuple[int, int]) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=size) as pilot:
        for key in "1234567":
            await pilot.press(key)
            lines = (await settle(app, pilot)).splitlines()
            assert len(lines) == size[1] and max(map(len, lines)) <= size[0]
            assert " q quit" in lines[-1] and lines[-1].rstrip().endswith("? help")


async def test_a_frame_may_come_before_a_screen_has_its_widgets(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        for name in ("metrics", "kernels", "samples", "evaluation", "runs", "config"):
            app.show_screen(name)
            app.draw()
        await pilot.press("1")
        assert "phases" in await settle(app, pilot)
