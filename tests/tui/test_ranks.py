"""The processes of a training on the overview and on their screen; nothing where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from conftest import UTF8, Clock, until

from trainer.rundir import RanksEvent, Record
from trainer.tui.app import Dashboard
from trainer.tui.feed import Feed
from trainer.tui.overview import Content, body_places
from trainer.tui.panels.ranks import rank_rows
from trainer.tui.view import View


def row(rank: int, **fields: Any) -> dict[str, Any]:
    known = {"host": f"node{rank}", "pid": 4000 + rank, "state": "train", "step": 120, "step_ms": 118.0, "wait": 0.55}
    return {"rank": rank, **known, "memory": 1.5e9, **fields}


RANKS = RanksEvent([row(2, step_ms=262.4, wait=0.0), *(row(rank) for rank in (0, 1, 3)), row(4, state="silent")])


def view_of(event: RanksEvent) -> View:
    view = View("run")
    view.apply(Record(event, 1.0, 1.0, 1))
    return view


def test_a_row_has_what_is_known_of_a_process() -> None:
    rows = rank_rows(view_of(RANKS))
    assert rows[0].cells == ("2", "node2", "4002", "train", "120", "262.4", "0%", "1.5 GB")
    assert rows[4].role == "bad"
    first, damaged = rank_rows(
        view_of(RanksEvent([{"rank": 0, "state": "idle in data"}, {"rank": "x", "wait": "nan"}]))
    )
    assert first.cells == ("0", "-", "-", "idle in data", "-", "-", "-", "-") and first.role == "warn"
    assert damaged.cells[0] == "-"


def test_the_next_attempt_may_have_one_process() -> None:
    view = view_of(RANKS)
    view.apply(Record(synthetic_run.PhaseEvent("config", "finished"), 2.0, 2.0, 2))
    assert not view.ranks


@pytest.mark.parametrize(("width", "height"), [(80, 20), (160, 46)])
def test_they_stand_next_to_the_log(width: int, height: int) -> None:
    content = Content(phases=6, metrics=8, system=7, log=40, has_ranks=True)
    places = body_places(width, height, content)
    log, ranks = places["log"], places["ranks"]
    assert log[1] == ranks[1] and log[3] == ranks[3] >= 6 and log[0] + log[2] == ranks[0]
    assert "ranks" not in body_places(width, height, Content(phases=6, metrics=8, system=7, log=40))


async def test_the_screen_lists_all_of_them(tmp_path: Path, clock: Clock) -> None:
    paths = synthetic_run.write_run(tmp_path / "several", finished_epochs=1)
    synthetic_run.append(paths, RANKS, 9.0)
    app = Dashboard(Feed(paths.root, clock), environment=UTF8)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await until("ranks, the slowest first (9)", app, pilot)
        assert "262.4" in text
        await pilot.press("9")
        text = await until("ranks  5, the slowest first", app, pilot)
        lines = [line.split() for line in text.splitlines() if "node" in line]
        assert [line[line.index(f"node{rank}") - 1] for line, rank in zip(lines, (2, 0, 1, 3, 4), strict=True)] == list(
            "20134"
        )
        await pilot.press("s")
        await until("rankv", app, pilot)
