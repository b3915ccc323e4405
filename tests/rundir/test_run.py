"""`open_run`: metrics as arrays, the state of a run, growth while it is looked at."""

from pathlib import Path

import pytest

import trainer
from trainer.rundir import (
    EndEvent,
    EventWriter,
    Liveness,
    LogEvent,
    MetricEvent,
    PhaseEvent,
    Record,
    ResumedEvent,
    RunLock,
    RunPaths,
    create_run,
)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = create_run(tmp_path, "digits")
    made.config(1).write_text("task: digits\n")
    return made


def metric(step: int, loss: float) -> MetricEvent:
    return MetricEvent(step, step / 10, "train", {"loss": loss})


def test_metrics_are_arrays_that_numpy_takes_without_a_copy(paths: RunPaths) -> None:
    numpy = pytest.importorskip("numpy")
    writer = EventWriter(paths.events, attempt=1, process_start=0.0)
    for step in range(3):
        writer(metric(step, 2.0 - step))
    run = trainer.open_run(paths.root)
    series = run.metrics["train/loss"]
    values = numpy.asarray(series.value)
    assert values.dtype == numpy.float64 and values.tolist() == [2.0, 1.0, 0.0]
    assert list(series.step) == [0, 1, 2] and list(series.epoch) == [0.0, 0.1, 0.2]
    series.value[0] = 9.0
    assert values[0] == 9.0


def test_a_series_that_is_looked_into_does_not_keep_the_run_from_growing(paths: RunPaths) -> None:
    writer = EventWriter(paths.events, attempt=1, process_start=0.0)
    writer(metric(0, 1.0))
    run = trainer.open_run(paths.root)
    series = run.metric("train", "loss")
    with memoryview(series.value):
        writer(metric(1, 0.5))
        run.refresh()
    assert len(series) == 1 and list(run.metric("train", "loss").value) == [1.0, 0.5]


def test_a_resumed_attempt_takes_points_back_and_the_run_goes_on(paths: RunPaths) -> None:
    first = EventWriter(paths.events, attempt=1, process_start=0.0)
    for step in (10, 20, 30):
        first(metric(step, float(step)))
    first(PhaseEvent("train", "failed"))
    first(EndEvent("failed", 1))
    run = trainer.open_run(paths.root)
    assert run.status == "failed" and run.end is not None
    second = EventWriter(paths.events, attempt=2, process_start=0.0)
    second(ResumedEvent(10))
    second(metric(20, 21.0))
    first(metric(40, 40.0))
    run.refresh()
    assert list(run.metrics["train/loss"].value) == [10.0, 21.0]
    assert run.end is None and run.attempt == 2 and run.phases == {}
    fresh = trainer.open_run(paths.root)
    assert fresh.metrics["train/loss"] == run.metrics["train/loss"]


def test_status_follows_the_lock_and_the_end(paths: RunPaths) -> None:
    writer = EventWriter(paths.events, attempt=1, process_start=0.0)
    writer(PhaseEvent("config", "finished"))
    run = trainer.open_run(paths.root)
    assert run.status == "starting"
    with RunLock(paths):
        assert run.status == "running"
    paths.lock.write_text("{}")
    assert run.status == "lost"
    writer(EndEvent("done", 0, metrics={"test/accuracy": 0.99}))
    run.refresh()
    assert run.status == "done" and run.end is not None and run.end.metrics == {"test/accuracy": 0.99}


def test_names_text_and_phases(paths: RunPaths) -> None:
    writer = EventWriter(paths.events, attempt=1, process_start=0.0)
    writer(PhaseEvent("data", "started"))
    writer(PhaseEvent("model", "started"))
    writer(PhaseEvent("data", "finished", done=5))
    run = trainer.open_run(paths.root)
    assert (run.name, run.config_text) == ("digits", "task: digits\n")
    assert list(run.phases.items()) == [
        ("data", PhaseEvent("data", "finished", done=5)), ("model", PhaseEvent("model", "started")),
    ]  # fmt: skip
    assert len(run.events()) == 3


def test_a_run_and_its_metrics_show_themselves(paths: RunPaths) -> None:
    run = trainer.open_run(paths.root)
    assert repr(run.metrics) == "no metrics yet" and "<table>" in run._repr_html_()
    writer = EventWriter(paths.events, attempt=1, process_start=0.0)
    for step, loss in ((1, 3.0), (2, 0.5), (3, 1.5)):
        writer(MetricEvent(step, step / 10, "train", {"loss<a>": loss}))
    writer(EndEvent("done", 0))
    run.refresh()
    assert repr(run) == "<run digits, attempt 1: done, 1 metrics>"
    assert repr(run.metrics) == "train/loss<a>  3 values, last 1.5 at step 3"
    row = "<tr><td>train/loss&lt;a&gt;</td><td>1.5</td><td>3</td><td>0.5</td><td>3</td></tr>"
    assert row in run._repr_html_()


def test_an_unknown_metric_names_those_that_there_are(paths: RunPaths) -> None:
    EventWriter(paths.events, attempt=1, process_start=0.0).write(metric(1, 1.0))
    with pytest.raises(KeyError, match="train/loss"):
        trainer.open_run(paths.root).metric("valid", "accuracy")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(trainer.TrainerError, match="not a run directory"):
        trainer.open_run(tmp_path)


def test_the_status_needs_no_more_than_the_end_of_the_latest_attempt(paths: RunPaths) -> None:
    live = Liveness(paths)
    for attempt, event in (
        (1, LogEvent("a")),
        (1, EndEvent("stopped", 0)),
        (2, LogEvent("b")),
        (1, EndEvent("failed", 1)),
    ):
        live.see(Record(event, 0.0, 0.0, attempt))
    assert live.status == "lost"  # of a process that is gone
    with RunLock(paths):
        assert live.status == "running"
    live.see(Record(EndEvent("done", 0), 0.0, 0.0, 2))
    assert live.status == "done"
