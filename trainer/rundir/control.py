"""Requests to a running worker: small files created in `control/` by atomic rename, read in order."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer import TrainerError
from trainer.rundir.files import replacing, write_error
from trainer.rundir.layout import RunPaths

REQUESTS = ("stop", "checkpoint", "pause", "resume", "evaluate", "abort", "prune")
"""`prune` stops a run as `stop` does, because other trials of its sweep are better."""
ENDING_REQUESTS = ("stop", "prune", "abort")
"""The requests that end a run."""


@dataclass(frozen=True)
class Request:
    """One request. `what` is one of REQUESTS, or another word that the worker refuses."""

    id: str
    what: str
    fields: Mapping[str, Any]


def send_request(paths: RunPaths, what: str, **fields: Any) -> str:
    """Sends a request to the run's worker; returns its id, which the `request` events in reply contain.

    Raises:
        TrainerError: unknown request, or the directory can't be written.
    """
    if what not in REQUESTS:
        raise TrainerError("unknown request", found=repr(what), expected=", ".join(REQUESTS))
    identity = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(2).hex()}"
    try:
        place_request(paths, identity, json.dumps({"what": what, **fields}))
    except OSError as error:
        raise write_error(paths.control, error) from error
    return identity


def place_request(paths: RunPaths, identity: str, text: str) -> None:
    """Writes the text of a request atomically to the folder that the run's worker reads.

    Raises:
        OSError: the directory can't be written.
    """
    with replacing(paths.control / f"{identity}.json") as aside:
        aside.write_text(text, encoding="utf-8")


def take_requests(paths: RunPaths) -> list[Request]:
    """Removes and returns the waiting requests, oldest first. Cheap without requests (one directory listing)."""
    return [request for request in waiting_requests(paths) if _take(paths, request)]


def _take(paths: RunPaths, request: Request) -> bool:
    """Removes a request; returns whether it is gone: one that stays, on a read-only disk, would run at each step."""
    try:
        (paths.control / f"{request.id}.json").unlink(missing_ok=True)
    except OSError:
        return False
    return True


def waiting_requests(paths: RunPaths) -> list[Request]:
    """Returns the waiting requests without removing them."""
    try:
        names = sorted(name for name in os.listdir(paths.control) if name.endswith(".json") and name[0] != ".")
    except FileNotFoundError:
        return []
    requests = []
    for name in names:
        try:
            text = (paths.control / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue  # removed between listing and reading
        requests.append(_parse(name.removesuffix(".json"), text))
    return requests


def _parse(identity: str, text: str) -> Request:
    try:
        fields = json.loads(text)
        what = fields.pop("what")
    except (ValueError, KeyError, AttributeError, TypeError):
        return Request(identity, "unreadable", {"text": text[:200]})
    return Request(identity, str(what), fields)
