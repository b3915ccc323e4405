from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import synthetic_run
from conftest import Clock, dashboard, dead_pid, hold_lock, screen_text, settle
from textual.timer import Timer
from textual.worker import WorkerFailed

from trainer import TrainerError
from trainer.rundir import EndEvent, LogEvent, MetricEvent, PhaseEvent, RequestEvent, RunPaths, take_requests
from trainer.tui import watch
from trainer.tui.feed import Feed
from trainer.tui.keys import actions_of, key_name
from trainer.tui.pace import SHARE_OF_A_CORE, FrameCost
from trainer.tui.screens import HelpDialogue, StopDialogue


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (200, 60)])
async def test_a_finished_run_stands_on_one_screen(finished: RunPaths, clock: Clock, size: tuple[int, int]) -> None:
    app = dashboard(finished, clock)
    async with app.run_test(size=size) as pilot:
        text = await settle(app, pilot)
    lines = text.splitlines()
    assert len(lines) == size[1] and max(map(len, lines)) <= size[0]
    for part in ("digits-7", "✓ DONE", "phases", "✓ compile", "61/61", "loss  train", "valid/accuracy", "step 960",
                 "cpu", "412 MB", "log", "done test/accuracy", "100%", "8/8 epochs", "q quit"):  # fmt: skip
        assert part in text
    assert ("learning rate" in text) == (size[0] >= 120)


@pytest.mark.parametrize("size", [(60, 24), (100, 12)])
async def test_a_small_terminal_shows_one_pane_with_tabs(
    finished: RunPaths, clock: Clock, size: tuple[int, int]
) -> None:
    app = dashboard(finished, clock)
    async with app.run_test(size=size) as pilot:
        text = await settle(app, pilot)
        assert "[phases]" in text and "✓ compile" in text and "loss  train" not in text
        await pilot.press("tab", "tab")
        text = await settle(app, pilot)
        assert "[loss]" in text and "loss  train" in text and "✓ compile" not in text
        await pilot.press("shift+tab", "shift+tab", "shift+tab")
        assert "[log]" in await settle(app, pilot)


async def test_a_terminal_that_grows_gets_more_panels(finished: RunPaths, clock: Clock) -> None:
    app = dashboard(finished, clock)
    async with app.run_test(size=(60, 24)) as pilot:
        await settle(app, pilot)
        await pilot.resize_terminal(160, 50)
        text = await settle(app, pilot)
    assert "learning rate" in text and "[phases]" not in text


async def test_the_first_step_is_drawn_at_the_frame_rate_before_it(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FrameCost, "seconds", 0.02)
    paths = synthetic_run.make_folder(tmp_path / "digits-7")
    hold_lock(paths, os.getpid(), clock.now)
    app = dashboard(paths, clock)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(app, pilot)
        synthetic_run.append(paths, MetricEvent(1, 0.1, "train", {"loss": 2.0}), at=10.2)
        clock.now += 0.25
        assert app.advance() == 0.25
        await pilot.pause()
        assert "step 1" in screen_text(app)
        clock.now += 0.25
        assert app.advance() == pytest.approx(0.02 / SHARE_OF_A_CORE - 0.25), "the rest of the pause after that frame"


async def test_without_utf8_the_whole_screen_is_ascii(finished: RunPaths, clock: Clock) -> None:
    app = dashboard(finished, clock, environment={"LC_ALL": "C"})
    async with app.run_test(size=(80, 24)) as pilot:
        text = await settle(app, pilot)
        await pilot.press("question_mark")
        help_text = await settle(app, pilot)
    assert text.isascii() and help_text.isascii()
    assert "v DONE" in text and "+- phases" in text and "*" in text


async def test_new_records_appear(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(160, 50)) as pilot:
        before = await settle(app, pilot)
        assert "● RUNNING" in before and "epoch 2/8" in before
        synthetic_run.append(running, PhaseEvent("evaluate", "started", 3, 40, now="batch 3"), at=11.0)
        running.log.write_text("a line that the worker printed\n")
        after = await settle(app, pilot)
    assert "● evaluate" in after and "3/40" in after and "batch 3" in after
    assert "a line that the worker printed" in after


async def test_a_run_without_events_waits_in_words(tmp_path: Path, clock: Clock) -> None:
    app = dashboard(synthetic_run.make_folder(tmp_path / "young"), clock)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await settle(app, pilot)
    assert "young" in text and "STARTING" in text and "nothing has begun yet" in text


async def test_a_dead_worker_is_shown_with_the_last_lines_of_its_log(running: RunPaths, clock: Clock) -> None:
    hold_lock(running, dead_pid(), clock.now)
    running.log.write_text("loading\nMemoryError: cannot allocate 12 GB\n")
    app = dashboard(running, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        text = await settle(app, pilot)
        await pilot.press("c")
        refused = await settle(app, pilot)
        await pilot.press("q")
    assert "✗ LOST" in text and "MemoryError: cannot allocate 12 GB" in text and "it/s" not in text
    assert "can't checkpoint: the training process" in refused and "is gone" in refused
    assert app.return_value == "finished"


async def test_a_failed_run_shows_its_traceback(running: RunPaths, clock: Clock) -> None:
    running.traceback(1).write_text("Traceback (most recent call last):\nZeroDivisionError: division by zero\n")
    end = EndEvent("failed", 1, reason="ZeroDivisionError", traceback="traceback-1.txt")
    synthetic_run.append(running, end, at=10.0)
    app = dashboard(running, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await settle(app, pilot)
    assert "✗ FAILED" in text and "ZeroDivisionError: division by zero" in text


async def test_a_silent_worker_is_shown_as_such(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        assert "● RUNNING" in await settle(app, pilot)
        clock.now += 20
        assert "? SILENT" in await settle(app, pilot)


async def test_a_request_and_its_answer_are_shown(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("c")
        assert "checkpoint: requested" in await settle(app, pilot)
        clock.now += 5.5
        assert "checkpoint: no answer from the training process yet" in await settle(app, pilot)
        (request,) = take_requests(running)
        assert request.what == "checkpoint"
        synthetic_run.append(running, RequestEvent(request.id, "checkpoint", "refused", "no step yet"), at=15.6)
        assert "checkpoint: refused (no step yet)" in await settle(app, pilot)
        clock.now += 7
        assert "c checkpoint" in await settle(app, pilot)


async def test_the_pause_key_resumes_a_paused_run(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("p")
        (request,) = take_requests(running)
        assert request.what == "pause"
        synthetic_run.append(running, RequestEvent(request.id, "pause", "done"), at=10.5)
        assert "‖ PAUSED" in await settle(app, pilot)
        await pilot.press("p")
        (request,) = take_requests(running)
        assert request.what == "resume"


@pytest.mark.parametrize(("key", "asked"), [("s", ["stop"]), ("a", ["abort"]), ("escape", [])])
async def test_the_stop_dialogue_asks_before_it_stops(
    running: RunPaths, clock: Clock, key: str, asked: list[str]
) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("x")
        assert "Finish this step, write a checkpoint and stop" in await settle(app, pilot)
        assert take_requests(running) == []
        await pilot.press(key)
        assert "stop training?" not in await settle(app, pilot)
        assert [request.what for request in take_requests(running)] == asked


async def test_the_owner_leaves_once_its_stop_is_done(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock, owner=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("x", "s")
        assert app.is_running
        synthetic_run.append(running, EndEvent("stopped", 0, 240, 10.0), at=10.4)
        await settle(app, pilot)
    assert app.return_value == "stopped"


async def test_leaving_a_running_run_detaches(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock, owner=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
    assert app.return_value == "detached" and take_requests(running) == []


async def test_the_second_interrupt_goes_to_the_worker(running: RunPaths, clock: Clock) -> None:
    worker = subprocess.Popen(["sleep", "60"])
    hold_lock(running, worker.pid, clock.now)
    app = dashboard(running, clock)
    try:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("ctrl+c")
            assert isinstance(app.screen, StopDialogue) and worker.poll() is None
            await pilot.press("ctrl+c")
            assert f"interrupt sent to process {worker.pid}" in await settle(app, pilot)
            assert worker.wait(10) == -signal.SIGINT
    finally:
        worker.kill()
        worker.wait()


async def test_a_worker_on_another_machine_is_not_interrupted(running: RunPaths, clock: Clock) -> None:
    running.lock.write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    assert "runs on elsewhere" in Feed(running.root, clock).interrupt()


async def test_help_lists_every_key_of_the_table(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(80, 70)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpDialogue)
        text = await settle(app, pilot)
        for scope in ("everywhere", "stop dialogue"):
            for action in actions_of(scope):
                assert action.help in text and all(key_name(key) in text for key in action.keys)
        await pilot.press("escape")
        assert "stop dialogue" not in await settle(app, pilot)


async def test_the_configuration_screen_shows_where_values_came_from(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("7")
        text = await settle(app, pilot)
        assert "batch_size: 64  # config.yaml:4:5" in text and "# recipe digits" in text
        assert "epochs: 8" not in text
        await pilot.press("end")
        assert "epochs: 8" in await settle(app, pilot)
        await pilot.press("1")
        assert "phases" in await settle(app, pilot)


async def test_the_palette_lists_the_key_table(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(80, 24)):
        listed = {command.title: command.help for command in app.get_system_commands(app.screen)}
    for action in actions_of("everywhere"):
        assert (listed.get(action.label.capitalize()) == action.help) == action.in_palette


async def test_only_changed_panels_are_painted_again(finished: RunPaths, clock: Clock) -> None:
    app = dashboard(finished, clock)
    async with app.run_test(size=(160, 50)) as pilot:
        before = await settle(app, pilot)
        drawn = {panel.id: panel.lines for panel in app.screen.query("Panel")}
        assert await settle(app, pilot) == before
        for panel in app.screen.query("Panel"):
            if panel.id in ("loss", "valid", "rate"):
                assert panel.lines is drawn[panel.id]


async def test_a_long_log_is_sampled_first_and_then_read_whole(tmp_path: Path, clock: Clock) -> None:
    paths = synthetic_run.write_long_run(tmp_path / "long", records=30_000)
    app = dashboard(paths, clock)
    app.feed._events.close()
    feed = Feed(paths.root, clock)
    feed.poll(0.0)
    feed.read_preview()
    assert feed.is_behind and feed.view.step == 30_000  # the sample reaches to the end
    assert 100 < len(feed.view.series["train", "loss"]) < 30_000
    while feed.is_behind:
        feed.poll(1.0)
    assert len(feed.view.series["train", "loss"]) == 30_000
    assert feed.view.series["valid", "accuracy"].best("max") == (10_000, synthetic_run.PEAK)


def test_a_run_that_was_not_read_to_its_end_is_not_called_dead(finished: RunPaths, clock: Clock) -> None:
    feed = Feed(finished.root, clock)
    clock.now += 3600
    feed.poll(0.0)
    assert feed.is_behind and feed.status().word == "READING" and feed.why_over() is None
    while feed.is_behind:
        feed.poll(1.0)
    assert feed.status().word == "DONE"


def test_a_folder_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="not a run directory"):
        watch(tmp_path / "nowhere")


async def test_nothing_is_drawn_twice_for_one_screen(finished: RunPaths, clock: Clock) -> None:
    app = dashboard(finished, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(app, pilot)
        assert screen_text(app).count("✓ DONE") == 1


async def test_reading_goes_on_where_the_system_holds_the_dashboard_up(
    running: RunPaths, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Timer._run

    async def run_late(timer: Timer) -> None:
        """Textual passes over what a timer has missed; one that was to go off once then never does."""
        if timer._repeat != 0:
            await run(timer)

    monkeypatch.setattr(Timer, "_run", run_late)
    app = dashboard(running, clock)
    async with app.run_test() as pilot:
        await settle(app, pilot)  # whatever else would have it read is done
        before = app.feed.view.revision
        synthetic_run.append(running, LogEvent("still here"), 10.0)
        deadline = time.monotonic() + 30
        while app.feed.view.revision == before:
            assert time.monotonic() < deadline
            await pilot.pause(0.01)


async def test_a_change_of_size_is_heard_where_the_system_holds_the_dashboard_up(
    running: RunPaths, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Timer._run

    async def run_late(timer: Timer) -> None:
        """Textual passes over what a timer has missed, unless it is told not to."""
        if timer._repeat != 0 or not timer._skip:
            await run(timer)

    app = dashboard(running, clock)
    async with app.run_test(size=(60, 24)) as pilot:
        await settle(app, pilot)
        monkeypatch.setattr(Timer, "_run", run_late)
        await pilot.resize_terminal(160, 50)
        deadline = time.monotonic() + 30
        while app.screen.size != (160, 50):
            assert time.monotonic() < deadline
            await pilot.pause(0.01)


async def test_a_test_of_a_dashboard_that_fails_ends(
    running: RunPaths, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seconds: float) -> None:
        raise RuntimeError("the file is gone")

    app = dashboard(running, clock)
    with pytest.raises(WorkerFailed, match="the file is gone"):
        async with app.run_test() as pilot:
            await settle(app, pilot)
            monkeypatch.setattr(app.feed, "poll", fail)
            app._wake.set()
            while True:
                await pilot.pause()


async def test_a_key_of_the_first_instant_does_not_keep_the_screen_from_moving_on(
    running: RunPaths, clock: Clock
) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("x")
        deadline = time.monotonic() + 30
        while app.is_first and time.monotonic() < deadline:
            await pilot.pause()
        assert not app.is_first and isinstance(app.screen, StopDialogue)
