"""Requests: sent whole, taken once, in their order."""

from pathlib import Path

import pytest

from trainer import TrainerError
from trainer.rundir import RunPaths, create_run, send_request, take_requests, waiting_requests


def test_requests_are_taken_once_and_in_their_order(tmp_path: Path) -> None:
    paths = create_run(tmp_path, "run")
    ids = [send_request(paths, "checkpoint", why="by hand"), send_request(paths, "stop")]
    taken = take_requests(paths)
    assert [request.id for request in taken] == ids
    assert [(request.what, dict(request.fields)) for request in taken] == [
        ("checkpoint", {"why": "by hand"}), ("stop", {}),
    ]  # fmt: skip
    assert take_requests(paths) == [] and list(paths.control.iterdir()) == []


def test_a_request_still_being_written_is_left_alone(tmp_path: Path) -> None:
    paths = create_run(tmp_path, "run")
    (paths.control / ".0001").write_text('{"what": "st')
    assert take_requests(paths) == []


@pytest.mark.parametrize("text", ["{", "[]", "{}", "7"])
def test_a_file_that_is_no_request_is_handed_on_to_be_refused(tmp_path: Path, text: str) -> None:
    paths = create_run(tmp_path, "run")
    (paths.control / "0001.json").write_text(text)
    (request,) = take_requests(paths)
    assert (request.id, request.what, request.fields["text"]) == ("0001", "unreadable", text)


def test_an_unknown_word_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="unknown request"):
        send_request(create_run(tmp_path, "run"), "explode")


def test_a_directory_without_control_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="can't write"):
        send_request(RunPaths(tmp_path / "gone"), "stop")
    assert take_requests(RunPaths(tmp_path / "gone")) == []


def test_looking_at_requests_leaves_them_waiting(tmp_path: Path) -> None:
    paths = create_run(tmp_path, "run")
    identity = send_request(paths, "abort")
    assert [request.id for request in waiting_requests(paths)] == [identity]
    assert [request.id for request in take_requests(paths)] == [identity]
