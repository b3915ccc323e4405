"""Following a growing file: incremental, in boxed time, tolerant; and the rule of attempts."""

import itertools
import json
import time
from pathlib import Path

import pytest

from trainer.rundir import (
    EventTail,
    EventWriter,
    LogEvent,
    MetricEvent,
    RunPaths,
    last_records,
    open_run,
    read_events,
    reader,
    sample_events,
)
from trainer.rundir.codec import encode
from trainer.rundir.events import EndEvent, Event, PhaseEvent, ResumedEvent, SampleEvent


def lines(*events: Event, attempt: int = 1) -> bytes:
    return b"".join(encode(event, time=1.0, since_start=1.0, attempt=attempt) for event in events)


def logs(first: int, last: int) -> bytes:
    return lines(*(LogEvent(str(number)) for number in range(first, last)))


def messages(records: list) -> list[str]:
    return [record.event.message for record in records]


def test_each_poll_returns_what_was_written_since_the_last(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventTail(path)
    assert tail.poll() == [] and tail.at_end
    writer = EventWriter(path, attempt=1, process_start=0.0)
    writer(LogEvent("a"))
    assert messages(tail.poll()) == ["a"]
    assert tail.poll() == []
    writer(LogEvent("b"))
    writer(LogEvent("c"))
    assert messages(tail.poll()) == ["b", "c"]
    assert tail.bytes_read == tail.size == path.stat().st_size


def test_a_line_is_returned_once_its_newline_is_there(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = logs(0, 2)
    tail = EventTail(path)
    seen = []
    for end in range(1, len(whole) + 1):
        path.write_bytes(whole[:end])
        seen += [(message, end) for message in messages(tail.poll())]
    assert seen == [("0", whole.index(b"\n") + 1), ("1", len(whole))]


def test_torn_and_foreign_lines_in_the_middle_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(logs(0, 1) + b'{"kind":"log","mes\n\n\x00\x01\n17\n' + logs(1, 2))
    tail = EventTail(path)
    assert messages(tail.poll()) == ["0", "1"]
    assert tail.skipped_lines == 3


@pytest.mark.parametrize("field", ["step", "epoch", "attempt", "time", "values"])
def test_an_integer_of_hundreds_of_digits_is_no_number_of_a_metric(tmp_path: Path, field: str) -> None:
    paths = RunPaths(tmp_path)
    line = encode(MetricEvent(1, 0.5, "valid", {"loss": 1.0}), time=2.0, since_start=1.0, attempt=1)
    fields = json.loads(line)
    fields[field] = {"loss": 10**400} if field == "values" else 10**400
    paths.events.write_bytes(json.dumps(fields).encode() + b"\n" + line)
    run = open_run(tmp_path)
    assert run.metrics["valid/loss"].value[-1] == 1.0


def test_any_cut_into_chunks_gives_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(logs(0, 30))
    for size in (1, 7, 64, 100, 1000):
        monkeypatch.setattr(reader, "CHUNK_BYTES", size)
        assert messages(EventTail(path).poll()) == [str(number) for number in range(30)]


def test_a_box_of_bytes_is_kept_and_repeated_polls_get_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(logs(0, 500))
    tail = EventTail(path)
    seen: list[str] = []
    while not tail.at_end:
        before = tail.bytes_read
        seen += messages(tail.poll(max_bytes=1000))
        assert 0 < tail.bytes_read - before < 1200
    assert seen == [str(number) for number in range(500)]


def test_a_box_of_time_stops_the_poll_and_keeps_the_rest_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(logs(0, 1000))
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    tail = EventTail(path)
    first = tail.poll(max_seconds=2.5)
    assert len(first) == 3 * reader.LINES_TOGETHER and not tail.at_end
    assert messages(first + tail.poll()) == [str(number) for number in range(1000)]
    assert tail.at_end


def test_no_time_at_all_still_reads_one_stretch(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(logs(0, 200))
    assert EventTail(path).poll(max_seconds=0.0)


def test_a_resumed_attempt_takes_back_earlier_records_above_its_step(tmp_path: Path) -> None:
    def metric(step: int) -> MetricEvent:
        return MetricEvent(step, 0.0, "train", {"loss": 1.0})

    path = tmp_path / "events.jsonl"
    path.write_bytes(
        lines(PhaseEvent("train", "started"), *(metric(step) for step in (10, 20, 30, 40)))
        + lines(EndEvent("failed", 1, step=40))
        + lines(ResumedEvent(20, "checkpoints/step-20"), metric(30), metric(40), attempt=2)
        + lines(ResumedEvent(30, "checkpoints/step-30"), metric(40), attempt=3)
        + lines(metric(50), attempt=1)  # from a worker that had not died yet
    )
    metrics = [record for record in read_events(path) if isinstance(record.event, MetricEvent)]
    kept = [(record.attempt, record.event.step) for record in metrics]
    assert kept == [(1, 10), (1, 20), (2, 30), (3, 40)]
    assert not any(isinstance(record.event, EndEvent) for record in read_events(path))
    assert any(isinstance(record.event, PhaseEvent) for record in read_events(path))


def test_what_is_measured_again_at_the_step_of_a_resumption_counts_once(tmp_path: Path) -> None:
    """A validation whose run ended before its late values came, and the test of a run that was over."""

    def metric(split: str, **values: float) -> MetricEvent:
        return MetricEvent(20, 2.0, split, values, final=split == "test")

    path = tmp_path / "events.jsonl"
    first = metric("train", loss=1.0), metric("valid", loss=2.0), metric("valid", auc=3.0), metric("test", loss=4.0)
    path.write_bytes(
        lines(*first, SampleEvent(20, "valid", "one", "one.png"))
        + lines(ResumedEvent(20), metric("valid", loss=5.0), SampleEvent(20, "valid", "one", "one.png"), attempt=2)
        + lines(ResumedEvent(20), metric("test", loss=6.0), metric("test", loss=7.0), attempt=3)
    )
    kept = [record for record in read_events(path) if not isinstance(record.event, ResumedEvent)]
    told = [(record.attempt, *getattr(record.event, "values", {}).values()) for record in kept]
    assert told == [(1, 1.0), (1, 3.0), (2, 5.0), (2,), (3, 6.0), (3, 7.0)]


def test_metrics_that_came_together_are_replaced_one_by_one(tmp_path: Path) -> None:
    """Those of another process come with others or later, as the clock decides."""

    def metric(**values: float) -> MetricEvent:
        return MetricEvent(20, 2.0, "test", values, final=True)

    path = tmp_path / "events.jsonl"
    path.write_bytes(
        lines(metric(loss=1.0, ap=2.0, f1=3.0)) + lines(ResumedEvent(20), metric(loss=4.0), metric(ap=5.0), attempt=2)
    )
    told = [record.event.values for record in read_events(path) if isinstance(record.event, MetricEvent)]
    assert told == [{"f1": 3.0}, {"loss": 4.0}, {"ap": 5.0}]


def test_samples_cover_the_whole_file_at_a_bounded_cost(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(lines(*(MetricEvent(step, 0.0, "train", {"loss": 0.0}) for step in range(20_000))))
    records = sample_events(path, pieces=10, piece_bytes=2000)
    steps = [record.event.step for record in records]  # type: ignore[attr-defined]
    assert steps == sorted(steps) and steps[0] == 0 and steps[-1] == 19_999
    assert len(steps) < 400
    assert max(later - earlier for earlier, later in itertools.pairwise(steps)) < 20_000 / 8


def test_a_short_file_is_sampled_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(logs(0, 50))
    assert len(sample_events(path)) == 50


def test_the_end_of_a_long_file_is_read_without_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert last_records(path) == []
    path.write_bytes(logs(0, 1000) + b'{"kind":"lo')
    found = messages(last_records(path, last_bytes=1000))
    assert found == [str(number) for number in range(1000 - len(found), 1000)] and 5 < len(found) < 20
