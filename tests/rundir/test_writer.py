"""Appending: whole lines from many threads, torn lines closed, refusals in the user's words."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trainer import TrainerError
from trainer.rundir import EndEvent, EventWriter, LogEvent, PhaseEvent, read_events


def test_lines_of_many_threads_are_whole_and_in_each_threads_order(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    writers = [EventWriter(path, attempt=1, process_start=0.0) for _ in range(2)]

    def write(thread: int) -> None:
        for number in range(200):
            writers[thread % 2](LogEvent(f"{thread} {number} {'x' * 500}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    messages = [json.loads(line)["message"].split()[:2] for line in path.read_text().splitlines()]
    for thread_number in range(4):
        assert [int(n) for t, n in messages if int(t) == thread_number] == list(range(200))


def test_a_torn_last_line_is_closed_before_the_next_is_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"kind":"log","message":"first","level":"info"}\n{"kind":"lo')
    EventWriter(path, attempt=2, process_start=0.0).write(LogEvent("second"))
    assert [record.event for record in read_events(path)] == [LogEvent("first"), LogEvent("second")]


def test_since_start_counts_from_the_start_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventWriter(path, attempt=1, process_start=1000.0).write(LogEvent("now"))
    (record,) = read_events(path)
    assert record.since_start == pytest.approx(record.time - 1000.0, abs=0.01)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said_in_the_users_words() -> None:
    writer = EventWriter("/dev/full", attempt=1, process_start=0.0)
    with pytest.raises(TrainerError, match="no space left on device") as caught:
        writer.write(LogEvent("x"))
    assert caught.value.where == "/dev/full" and "free some space" in str(caught.value)


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="no such file or directory"):
        EventWriter(tmp_path / "gone" / "events.jsonl", attempt=1, process_start=0.0)


def test_what_a_full_disk_refuses_is_held_and_written_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    program = (
        "import resource, sys\n"
        "from trainer.rundir import EventWriter, LogEvent\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 10**9))\n"
        "writer = EventWriter(sys.argv[1], attempt=1, process_start=0.0)\n"
        "for number in range(100): writer(LogEvent(str(number)))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10**9, 10**9))\n"
        "writer(LogEvent('space again'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stderr.count("warning: ") == 1
    assert f"{path}: can't write: file too large" in done.stderr and "held in memory" in done.stderr
    *messages, told, last = [record.event.message for record in read_events(path)]  # type: ignore[attr-defined]
    assert messages == [str(number) for number in range(100)] and last == "space again"
    assert "events were held in memory meanwhile" in told


def test_an_end_that_cannot_be_written_and_too_much_to_hold_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, said = tmp_path / "events.jsonl", list[str]()
    writer = EventWriter(path, attempt=1, process_start=0.0, complain=said.append)
    writer(LogEvent("0"))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        patched.setattr("trainer.rundir.writer.MOST_HELD", 300)
        writer(LogEvent("1"))
        writer(LogEvent("2"))
        with pytest.raises(TrainerError, match=r"2 events that are held and were not written"):
            writer(LogEvent("3" * 300))
        with pytest.raises(TrainerError, match=r"2 events that are held and were not written"):
            writer(EndEvent("done", 0))
    assert len(said) == 1
    writer(EndEvent("done", 0))
    assert [record.event.kind for record in read_events(path)] == ["log", "log", "log", "warning", "end"]


def test_nothing_is_written_after_the_end(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "events.jsonl", attempt=1, process_start=0.0) as writer:
        writer(PhaseEvent("train", "started"))
        writer(EndEvent("done", 0))
        writer(PhaseEvent("train", "finished"))
    assert [record.event.kind for record in read_events(tmp_path / "events.jsonl")] == ["phase", "end"]
