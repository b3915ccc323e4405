"""How long a run took: its attempts, without the nights between them; and which metric leads what is listed of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.cli.runs_table import columns_of, drawn, telling_metrics
from trainer.rundir import EndEvent, MetricEvent, RunEvent, RunPaths, decode, encode, open_run, read_lock, summarize
from trainer.tui.charts import valid_chart
from trainer.tui.view import View

NIGHT = 40_000.0


def write_attempts(folder: Path, *, attempts: int, events: int, best: str = "valid/mean_iou") -> RunPaths:
    """A run of several attempts of 10 s each, a night apart, with a config that names the best metric."""
    folder.mkdir()
    paths = RunPaths(folder)
    lines = []
    for attempt in range(1, attempts + 1):
        start = 1e9 + (attempt - 1) * NIGHT
        told = [RunEvent(folder.name, "t", "0", 1, "h", "cpu", None)]
        told += [MetricEvent(step, 0.0, "valid", {"cross_entropy": 1.0, "mean_iou": 0.5, "note": 1.0}) for step in
                 range(1, events + 1)]  # fmt: skip
        told += [EndEvent("done" if attempt == attempts else "interrupted", 0, events)]
        for number, event in enumerate(told):
            since = 10.0 * number / (len(told) - 1)
            lines.append(encode(event, time=start + since, since_start=since, attempt=attempt))
    paths.events.write_bytes(b"".join(lines))
    paths.config(1).write_text(
        f"task: t\ncheckpoint:\n  keep_last: 2\n  best:\n    metric: {best}  # x:1\n    mode: max\n"
    )
    return paths


@pytest.mark.parametrize("events", [1, 3, 2000])
@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_time_between_attempts_does_not_count_anywhere(tmp_path: Path, attempts: int, events: int) -> None:
    paths = write_attempts(tmp_path / "run", attempts=attempts, events=events)
    expected = pytest.approx(10.0 * attempts)
    assert summarize(paths).seconds == expected
    assert open_run(paths.root).seconds == expected
    view = View("run")
    from trainer.rundir import EventTail

    with EventTail(paths.events) as tail:
        for record in tail.poll():
            view.apply(record)
    assert view.taken.seconds == expected


def test_a_file_cut_short_or_damaged_still_has_a_time(tmp_path: Path) -> None:
    paths = write_attempts(tmp_path / "run", attempts=3, events=50)
    whole = paths.events.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 3):
        paths.events.write_bytes(whole[:cut] + b"\xff no event")
        seconds = summarize(paths).seconds
        assert seconds is None or 0 <= seconds <= 30


def test_the_metric_that_chooses_checkpoints_leads(tmp_path: Path) -> None:
    paths = write_attempts(tmp_path / "run", attempts=1, events=3)
    run = summarize(paths)
    assert paths.leading_metric == run.leading == "valid/mean_iou"
    assert telling_metrics([run])[0] != "valid/mean_iou", "it has a column of its own"
    assert drawn(columns_of([run], [{}], [], []), None)[0].splitlines()[0].endswith("best valid/mean_iou")
    view = View("run", leading=paths.leading_metric)
    for record in open_run(paths.root).events():
        view.apply(record)
    chart = valid_chart(view)
    assert chart is not None and chart.title.startswith("valid/mean_iou")


def test_each_of_mixed_runs_tells_its_own(tmp_path: Path) -> None:
    one = summarize(write_attempts(tmp_path / "one", attempts=1, events=3))
    other = summarize(write_attempts(tmp_path / "other", attempts=1, events=3, best='"valid/note"'))
    assert telling_metrics([one, other]) == []
    table, _ = drawn(columns_of([one, other], [{}, {}], [], []), None)
    assert "valid/mean_iou 0.5" in table and "valid/note 1" in table
    assert not any(line.rstrip().endswith(" -") for line in table.splitlines())


@pytest.mark.parametrize("text", ["", "checkpoint:\n  best: null\n", "checkpoint: {best: null}\n", "\xff"])
def test_without_a_best_nothing_leads(tmp_path: Path, text: str) -> None:
    paths = RunPaths(tmp_path)
    assert paths.leading_metric is None
    paths.config(1).write_text(text, encoding="latin-1")
    assert paths.leading_metric is None


@pytest.mark.parametrize("time", ["1e308", "1" + "0" * 400, "NaN", "-1e300", "null"])
def test_a_damaged_time_is_none(time: str) -> None:
    record = decode(f'{{"kind":"log","message":"a","time":{time},"since_start":{time},"attempt":1}}')
    assert record is not None and (record.time, record.since_start) == (0.0, 0.0)


def test_a_damaged_lock_and_config_are_read_past(tmp_path: Path) -> None:
    paths = write_attempts(tmp_path / "run", attempts=1, events=1)
    paths.lock.write_bytes(b'{"pid": 1\xe0')
    paths.config(1).write_bytes(b"task: \xc1")
    lock = read_lock(paths)
    assert lock is not None and not lock.alive
    assert open_run(paths.root).config_text == "task: \ufffd"
