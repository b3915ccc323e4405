from __future__ import annotations

import pytest

from trainer.rundir import Event, MetricEvent, PhaseEvent, Record, ResumedEvent, RunEvent, SystemEvent
from trainer.tui.chart_values import resolved
from trainer.tui.charts import loss_chart, rate_chart, valid_chart
from trainer.tui.panels.progress import epoch_text, remaining_seconds, train_share
from trainer.tui.view import View


def told(*events: tuple[float, Event], attempt: int = 1, view: View | None = None) -> View:
    view = view or View("run")
    for time, event in events:
        view.apply(Record(event, time, time, attempt))
    return view


def metric(step: int, split: str = "train", **values: float) -> MetricEvent:
    return MetricEvent(step, step / 100, split, values)


def test_a_phase_keeps_its_clock_and_starts_a_new_one_when_it_begins_again() -> None:
    view = told((10.0, PhaseEvent("validate", "started", 0, 8)), (12.5, PhaseEvent("validate", "finished", 8, 8)))
    assert view.phases["validate"].seconds(now=99.0) == 2.5
    told((20.0, PhaseEvent("validate", "started", 0, 8)), view=view)
    assert view.phases["validate"].seconds(now=21.0) == 1.0 and view.phases["validate"].done == 0


def test_a_first_phase_told_only_when_done_began_with_the_process() -> None:
    view = View("run")
    view.apply(Record(PhaseEvent("config", "finished"), 100.0, 0.25, 1))
    assert view.phases["config"].seconds(now=200.0) == pytest.approx(0.25)


def test_a_resumed_attempt_takes_back_later_records() -> None:
    view = told(*((float(step), metric(step, loss=step)) for step in (10, 20, 30)))
    told((40.0, ResumedEvent(20)), (41.0, metric(21, loss=21)), attempt=2, view=view)
    told((42.0, metric(31, loss=31)), attempt=1, view=view)  # the old worker, not quite dead yet
    assert list(view.series["train", "loss"].steps) == [10, 20, 21]


def test_speed_is_measured_over_the_last_seconds_only() -> None:
    view = told((0.0, metric(0)), (100.0, metric(10)), (101.0, metric(60)), (102.0, metric(110)))
    assert view.steps_per_second() == pytest.approx(50.0)


def test_progress_follows_the_epoch_between_two_phase_events() -> None:
    view = told(
        (0.0, PhaseEvent("train", "started", 0, 8, "epochs")),
        (10.0, PhaseEvent("train", "progress", 1, 8, "epochs")),
        (20.0, metric(200)),
    )
    assert train_share(view) == pytest.approx(2 / 8) and epoch_text(view) == "2/8"
    assert remaining_seconds(view, now=20.0) == pytest.approx(60.0)
    assert remaining_seconds(view, now=25.0) == pytest.approx(55.0)


def test_the_first_step_says_nothing_about_the_time_left() -> None:
    view = told((0.0, PhaseEvent("train", "started", 0, 1250)), (9.0, PhaseEvent("train", "progress", 1, 1250)))
    assert remaining_seconds(view, now=9.0) is None


def test_epochs_are_counted_where_the_phase_counts_steps() -> None:
    view = told((0.0, PhaseEvent("train", "started", 0, 1250, "step")), (1.0, MetricEvent(150, 1.2, "train", {})))
    assert epoch_text(view) == "2/10"


def test_what_one_sample_leaves_out_stands_as_told_last() -> None:
    view = told((0.0, SystemEvent(cpu=50, memory=1e9)), (1.0, SystemEvent(data_wait=0.1)), (2.0, SystemEvent(cpu=60)))
    assert view.system == SystemEvent(cpu=60, memory=1e9, data_wait=0.1) and list(view.histories["cpu"]) == [50, 60]


def test_a_finished_phase_is_complete() -> None:
    view = told((0.0, PhaseEvent("trace", "started", 0, 1)), (1.0, PhaseEvent("trace", "finished")))
    assert view.phases["trace"].done == 1


def test_what_the_worker_says_about_the_time_left_counts_first() -> None:
    view = told((0.0, PhaseEvent("train", "progress", 1, 8, "epochs", remaining=30.0)))
    assert remaining_seconds(view, now=10.0) == 20.0


def test_charts_take_their_metrics_by_name() -> None:
    view = told(
        (1.0, metric(1, generator_loss=1.0, discriminator_loss=2.0, learning_rate=1e-3)),
        (2.0, metric(2, generator_loss=1.0, discriminator_loss=2.0, learning_rate=1e-5)),
        (3.0, metric(2, "valid", loss=0.3, psnr=20.0)),
        (4.0, metric(4, "valid", loss=0.2, psnr=24.0)),
        (5.0, metric(6, "valid", loss=0.1, psnr=22.0)),
    )
    losses, valid, rates = loss_chart(view), valid_chart(view), rate_chart(view)
    assert losses is not None and {layer.name for layer in losses.layers} == {
        "generator_loss", "discriminator_loss", "valid"}  # fmt: skip
    assert valid is not None and valid.title.startswith("valid/psnr") and valid.best == (4, 24.0)
    assert rates is not None and resolved(rates).log_scale
    assert loss_chart(View("run")) is valid_chart(View("run")) is rate_chart(View("run")) is None


def test_less_loss_and_more_accuracy_are_better() -> None:
    rising = told((1.0, metric(1, "valid", accuracy=0.5)), (2.0, metric(2, "valid", accuracy=0.7)))
    falling = told((1.0, metric(1, "valid", loss=0.5)), (2.0, metric(2, "valid", loss=0.7)))
    chart = valid_chart(rising)
    assert chart is not None and chart.best == (2, 0.7)
    chart = valid_chart(falling)
    assert chart is not None and chart.best == (1, 0.5)


def test_a_chart_is_drawn_anew_only_when_its_data_changed() -> None:
    view = told((1.0, metric(1, loss=1.0)))
    chart = loss_chart(view)
    assert chart is not None
    version = chart.version
    told((2.0, PhaseEvent("train", "started")), view=view)
    assert chart.version == version
    told((3.0, metric(2, loss=1.0)), view=view)
    assert chart.version != version


def test_a_validation_of_thirty_metrics_is_one_short_line_although_some_come_later() -> None:
    view = View("run", leading="valid/ema/AP")
    first = {"loss": 0.8, "ema/AP": 0.25, **{f"ema/AR{index}": 0.5 for index in range(12)}}
    told((1.0, metric(5, "valid", **first)), (1.1, metric(5, "valid", AP=0.2)), view=view)
    assert [line.message for line in view.log] == [
        "valid at step 5: ema/AP 0.25 AP 0.2 loss 0.8 ema/AR0 0.5 and 11 more"
    ]
    told((2.0, metric(10, "valid", AP=0.3)), view=view)
    assert len(view.log) == 2 and view.log_count == 3


def test_a_task_in_a_file_is_called_by_its_class() -> None:
    view = told((0.0, RunEvent("mine", "/home/me/mine/task.py:Cells", "1", 7, "host", "cpu")))
    assert view.task == "Cells"
