from __future__ import annotations

from collections.abc import Callable

import pytest
import synthetic_run

from trainer.rundir import PhaseEvent, Record, SystemEvent
from trainer.tui.box import FRAME_HEIGHT, FRAME_WIDTH, boxed
from trainer.tui.charts import CHARTS
from trainer.tui.frame import Frame
from trainer.tui.glyphs import ASCII, UNICODE, Glyphs, choose_glyphs
from trainer.tui.keys import actions_of
from trainer.tui.numbers import clock
from trainer.tui.pace import FrameCost, pause_between_frames
from trainer.tui.panels.chart import draw_chart_panel
from trainer.tui.panels.footer import draw_footer
from trainer.tui.panels.header import draw_header
from trainer.tui.panels.log import draw_log
from trainer.tui.panels.phases import draw_phases
from trainer.tui.panels.progress import draw_progress
from trainer.tui.panels.system import draw_system, sparkline
from trainer.tui.panels.tabs import draw_tabs
from trainer.tui.status import DONE, PAUSED, RUNNING, Status
from trainer.tui.text import Line, line_width, plain
from trainer.tui.view import View

PANELS: list[Callable[[Frame, int, int], list[Line]]] = [
    draw_header, draw_phases, draw_progress, draw_system, draw_log, draw_footer, draw_tabs,
    *(draw_chart_panel(name) for name in CHARTS),
]  # fmt: skip


def frame(
    glyphs: Glyphs = UNICODE,
    status: Status = RUNNING,
    finished_epochs: int = 8,
    message: str = "",
    view: View | None = None,
) -> Frame:
    if view is None:
        view = View("digits-7")
        for at, event in synthetic_run.story(8, finished_epochs):
            view.apply(Record(event, synthetic_run.START + at, at, 1))
    return Frame(view, status, synthetic_run.START + 10, glyphs, message=message, pane="loss")


@pytest.mark.parametrize("draw", PANELS)
@pytest.mark.parametrize("size", [(1, 1), (9, 2), (28, 4), (54, 13), (140, 40)])
def test_a_panel_never_outgrows_its_place(draw: Callable[[Frame, int, int], list[Line]], size: tuple[int, int]) -> None:
    width, height = size
    for seen in (frame(), frame(ASCII, DONE), frame(view=View("a-very-long-name-of-a-run-that-someone-chose"))):
        lines = draw(seen, width, height)
        assert len(lines) <= max(1, height)
        in_a_box = boxed(lines, "title", width + FRAME_WIDTH, height + FRAME_HEIGHT, seen.glyphs)
        assert {line_width(line) for line in in_a_box} == {width + FRAME_WIDTH}


@pytest.mark.parametrize("draw", PANELS)
def test_without_utf8_a_panel_draws_ascii_only(draw: Callable[[Frame, int, int], list[Line]]) -> None:
    assert plain(draw(frame(ASCII), 70, 16)).isascii()


def test_the_header_keeps_name_and_state_where_there_is_room_for_little_else() -> None:
    wide, narrow = (plain(draw_header(frame(finished_epochs=2), width, 1)) for width in (160, 40))
    for part in ("trainer", "digits-7", "● RUNNING", "epoch 2/8", "step 240", "it/s", "data 6%", "ETA", "? help"):
        assert part in wide
    assert "digits-7" in narrow and "● RUNNING" in narrow and "it/s" not in narrow


def test_a_run_that_stands_still_shows_no_speed_and_no_time_left() -> None:
    text = plain(draw_header(frame(status=PAUSED, finished_epochs=2), 160, 1))
    assert "‖ PAUSED" in text and "it/s" not in text and "ETA" not in text


def test_a_finished_run_shows_its_result() -> None:
    seen = frame(status=DONE)
    seen.view.finals = {"train/loss": 0.1, "test/loss": 0.2, "test/accuracy": 0.9913}
    assert "test/accuracy 0.9913" in plain(draw_header(seen, 160, 1))


def test_phases_show_state_count_clock_and_what_they_are_on() -> None:
    view = View("run")
    for at, event in (
        (0.0, PhaseEvent("data", "started")),
        (2.0, PhaseEvent("data", "finished")),
        (2.0, PhaseEvent("compile", "started", 0, 61)),
        (6.0, PhaseEvent("compile", "progress", 14, 61, now="conv 8x64x56x56 3x3")),
        (9.0, PhaseEvent("autotune", "failed")),
    ):
        view.apply(Record(event, synthetic_run.START + at, at, 1))
    lines = plain(draw_phases(frame(view=view), 34, 10)).splitlines()
    assert lines[0].startswith("● setup") and lines[0].endswith("10.0 s")
    assert lines[1].startswith("  ✓ data") and lines[1].endswith("2.0 s")
    assert lines[2].startswith("  ● compile") and "14/61" in lines[2] and lines[2].endswith("8.0 s")
    assert lines[3].strip() == "conv 8x64x56x56 3x3"
    assert lines[4].startswith("  ✗ autotune")


def test_where_phases_do_not_fit_the_running_one_stays() -> None:
    view = frame(finished_epochs=2).view
    text = plain(draw_phases(frame(view=view), 30, 2))
    assert "● train" in text and "config" not in text


def test_the_loss_chart_goes_down_with_the_loss() -> None:
    lines = plain(draw_chart_panel("loss")(frame(), 60, 14)).splitlines()
    heights = [row for row, line in enumerate(lines[:-1]) for character in line if "⠀" < character <= "⣿"]
    assert heights and min(heights) <= 4 and max(heights) >= 11
    first = min(row for row, line in enumerate(lines[:-1]) if any(c > "⠀" and c <= "⣿" for c in line[4:10]))
    last = min(row for row, line in enumerate(lines[:-1]) if any(c > "⠀" and c <= "⣿" for c in line[36:44]))
    assert first < last - 4
    assert lines[-1].endswith("step 1000") and "0.07741 valid" in "".join(lines)


def test_the_best_point_is_marked() -> None:
    assert plain(draw_chart_panel("valid")(frame(), 60, 14)).count("◆") == 1
    assert plain(draw_chart_panel("valid")(frame(ASCII), 60, 14)).count("@") == 1


def test_a_chart_without_data_says_so() -> None:
    assert "no training step yet" in plain(draw_chart_panel("loss")(frame(view=View("run")), 60, 14))


def test_the_system_panel_shows_what_was_sampled() -> None:
    view = View("run")
    view.apply(Record(SystemEvent(cpu=50, memory=2e9, data_wait=0.25, gpus=[{"use": 91, "memory": 8e9}]), 0, 0, 1))
    text = plain(draw_system(frame(view=view), 40, 10))
    for part in ("50 %", "2.0 GB", "25% waiting", "gpu0 ▇ 91 % 8.0 GB"):
        assert part in text
    assert sparkline([0, 50, 100], 100, UNICODE) == " ▄█" and sparkline([0, 50, 100], 100, ASCII) == " =@"


def test_warnings_in_the_log_are_words_not_only_colours() -> None:
    assert "warning: 3 of 10000 pictures are blank (data)" in plain(draw_log(frame(), 100, 60))


def test_the_log_scrolls_back() -> None:
    newest = plain(draw_log(frame(), 100, 3)).splitlines()
    seen = frame()
    back = plain(draw_log(Frame(seen.view, seen.status, seen.now, UNICODE, scroll=1), 100, 3)).splitlines()
    assert back[1:] == newest[:-1]


def test_the_footer_lists_keys_or_says_what_became_of_a_request() -> None:
    keys = plain(draw_footer(frame(), 160, 1))
    for action in actions_of("everywhere"):
        assert (action.label in keys) or not action.in_footer
    narrow = plain(draw_footer(frame(), 80, 1))
    assert "1-7 screens" in narrow and narrow.endswith("? help")
    assert plain(draw_footer(frame(), 34, 1)).split("  ")[-2:] == ["q detach", "? help"]
    over = plain(draw_footer(frame(status=DONE), 120, 1))
    assert "checkpoint" not in over and "q quit" in over
    assert plain(draw_footer(frame(message="pause: done"), 120, 1)).strip() == "pause: done"


@pytest.mark.parametrize(
    ("environment", "glyphs"),
    [
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, ASCII),
        ({"LANG": "en_US.UTF-8"}, UNICODE),
        ({"LANG": "de_DE.utf8"}, UNICODE),
        ({"LANG": "en_US.ISO-8859-1"}, ASCII),
        ({}, UNICODE),
        ({"LANG": "C.UTF-8", "TERM": "linux"}, ASCII),
        ({"LANG": "C.UTF-8", "TERM": "tmux-256color"}, UNICODE),
    ],
)
def test_the_environment_decides_what_can_be_drawn(environment: dict[str, str], glyphs: Glyphs) -> None:
    assert choose_glyphs(environment) is glyphs


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, "0.0 s"), (0.04, "40 ms"), (0.06, "0.1 s"), (12.34, "12.3 s"), (99.96, "1:40.0"), (187.42, "3:07.4"),
     (599.94, "9:59.9"), (600.0, "10:00"), (7260.0, "2h01")],
)  # fmt: skip
def test_a_clock_that_runs_is_seen_to_run(seconds: float, told: str) -> None:
    assert clock(seconds) == told and len(told) <= 6


def test_frames_are_seldom_beside_a_busy_machine_but_not_before_the_first_step() -> None:
    busy = SystemEvent(cpu=99.0)
    assert pause_between_frames(RUNNING, busy, {}) == 1.0
    assert pause_between_frames(RUNNING, busy, {}, has_stepped=False) == 0.25
    assert pause_between_frames(PAUSED, busy, {}, has_stepped=False) == 1.0


def test_frames_that_cost_much_come_so_seldom_that_they_take_less_than_three_percent_of_a_core() -> None:
    now = [0.0]
    cost = FrameCost(lambda: now[0])

    def frame(seconds: float) -> float:
        cost.reading()
        now[0] += 5.0  # reading a long log
        cost.has_read()
        cost.next_frame()
        now[0] += seconds
        return pause_between_frames(RUNNING, None, {}, frame_seconds=cost.seconds)

    assert [frame(0.002) for _ in range(6)] == [0.25] * 6
    assert [frame(0.012) for _ in range(3)][-1] < 0.012 / 0.02
    assert frame(0.5) == frame(0.012) > 0.25, "one that imports something is no reason to wait for the next"
    assert 0.012 / frame(0.012) < 0.03
    assert [frame(0.5) for _ in range(4)][-1] == 1.0
    assert pause_between_frames(RUNNING, None, {}, has_stepped=False, frame_seconds=0.5) == 0.25
