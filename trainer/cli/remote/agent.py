"""The agent: starts a worker on its machine, and sends new content of its run directory until the connection ends.

    python -c BOOT VERSION FOLDER SLURM_OR_RAY        (places.py)

    relay → agent                                     agent → relay
                                                      folder, data, package: who and where it is
    list PATH                                         files: sizes and modification times below the path
    delete PATH; put PATH; link PATH to PATH
    start ORDER                                       has_started
    follow: what has arrived                          stage; grow NAME; put NAME; over
    request, id                                       has_taken ID
    interrupt NUMBER                                  has_interrupted NUMBER
    fetch                                             put NAME; fetched
    done: everything has arrived                      (ends, and deletes the folder)

The agent keeps nothing in memory that the next agent could need: the worker writes to its run directory with or without
an agent.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import trainer
from trainer import TrainerError, cache_folder
from trainer.cli.order import Order
from trainer.cli.remote.frames import MARK, FrameReader, file_frames, files_below, frame, take_file
from trainer.cli.remote.jobs import OVER, WAITING, FarJob, OwnProcess, scheduled
from trainer.cli.remote.mirror import GROWING, OF_THIS_MACHINE
from trainer.rundir import RunPaths, host_name
from trainer.rundir.control import place_request

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_SCANS = 1.0
"""Seconds between two searches for files that are new or changed."""
LARGE_BYTES = 1 << 20
"""Larger files are sent once they no longer change."""
MOST_BYTES = 1 << 22
"""Maximum bytes of a growing file in one frame; events are shorter."""
END = b'{"kind":"end",'
"""The beginning of the last event of an attempt."""


class Agent:
    """Serves one connection.

    Args:
        folder: the run's folder on this machine.
        through: slurm:PARTITION or ray:ADDRESS; empty: workers are processes of this machine.
        output: descriptor of the connection.
        shares_files: whether this machine has the relay's working directory, too; the run then keeps it.
    """

    def __init__(self, folder: Path, through: str, output: int, *, shares_files: bool) -> None:
        self._folder, self._through, self._output, self._shares_files = folder, through, output, shares_files
        self._run = _run_in(folder)
        self._job: FarJob | None = None
        self._sent: dict[str, int] | None = None
        self._received: dict[str, int] = {}
        self._modified: dict[str, int] = {}
        self._stage, self._scanned_at, self._is_over = "", 0.0, False

    def serve(self, requests: int) -> None:
        """Answers frames from a descriptor until its end, or until everything has arrived."""
        self._job = self._known_job(None)
        self._send({
            "folder": str(self._folder), "data": str(sent_data()), "host": host_name(),
            "package": str(Path(trainer.__file__).resolve().parent), "exists": self._job.has_started(),
        })  # fmt: skip
        reader = FrameReader()
        while True:
            if select.select([requests], [], [], 0.0 if self._is_behind() else SECONDS_BETWEEN_LOOKS)[0]:
                received = os.read(requests, 1 << 20)
                if not received:
                    return
                for header, payload in reader.feed(received):
                    if "done" in header:
                        self._clean_up()
                        return
                    self._answer(header, payload)
            if self._sent is not None and not self._is_over:
                self._send_news()

    def _answer(self, header: dict[str, Any], payload: bytes) -> None:
        match header:
            case {"list": path}:
                self._send({"files": files_below(Path(path)) if os.path.exists(path) else {}})
            case {"delete": path}:
                Path(path).unlink(missing_ok=True)
            case {"link": path, "to": target}:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).symlink_to(target)
            case {"put": _}:
                take_file(self._folder, header, payload)
            case {"start": order, "seconds": seconds, "name": name}:
                self._start(Order.from_json(order), seconds, name)
            case {"follow": modified, "received": received}:
                self._sent, self._received = modified, received
            case {"request": text, "id": identity}:
                self._request(text, identity)
            case {"interrupt": number}:
                if self._job is not None and self._job.has_started():
                    self._job.interrupt(number)
                self._send({"has_interrupted": number})
            case {"fetch": _}:
                self._send_checkpoints()

    def _start(self, order: Order, seconds: float, name: str) -> None:
        """Starts the worker, unless an earlier connection has done so."""
        self._run = self._folder / "run" / name
        self._run.mkdir(parents=True, exist_ok=True)
        if not self._shares_files:
            os.chdir(self._folder)
        try:
            job = self._known_job(order)
            if not job.has_started():
                job.start(order._replace(pid=os.getpid(), started=time.time() - seconds))
            self._job = job
        except TrainerError as error:
            self._send({"mistake": str(error)})
            return
        self._send({"has_started": True})

    def _known_job(self, order: Order | None) -> FarJob:
        run = self._run or self._folder / "run" / "none"
        if not self._through:
            return OwnProcess(self._folder, run)
        words = [] if order is None else [word for word in order.words if word.startswith("threads=")]
        return scheduled(self._folder, run, self._through, int(words[-1].partition("=")[2]) if words else None)

    def _request(self, text: str, identity: str) -> None:
        """Forwards a request once; a request to stop ends a job that still waits in the queue."""
        assert self._run is not None and self._job is not None
        noted, paths = self._folder / "requests", RunPaths(self._run)
        known = noted.read_text(encoding="utf-8").split() if noted.exists() else []
        if identity not in known:
            if paths.control.is_dir():
                place_request(paths, identity, text)
            elif json.loads(text).get("what") in ("stop", "abort"):
                self._job.interrupt(2)
            noted.write_text("\n".join([*known, identity]), encoding="utf-8")
        self._send({"has_taken": identity})

    # --- news ---------------------------------------------------------------------------------------------------------

    def _is_behind(self) -> bool:
        """Whether the event file has more unsent bytes than one frame holds."""
        if self._sent is None or self._run is None or self._is_over:
            return False
        path = self._run / GROWING[0]
        return path.exists() and path.stat().st_size - self._received[GROWING[0]] > MOST_BYTES

    def _send_news(self) -> None:
        """Sends new content: files before the events that name them, and the last event after everything else."""
        assert self._run is not None and self._job is not None
        stage = self._job.stage()
        if stage != self._stage:
            self._stage = stage
            self._send({"stage": stage})
        if stage == WAITING:
            return
        events = self._new_bytes(GROWING[0])
        complete = events[: events.rfind(b"\n") + 1]
        is_all = len(events) < MOST_BYTES
        last = complete.rstrip(b"\n").rpartition(b"\n")[2]
        if stage != OVER and last.startswith(END):
            complete = complete[: len(complete) - len(last) - 1]
        is_over = stage == OVER and is_all
        if is_over or time.monotonic() - self._scanned_at > SECONDS_BETWEEN_SCANS:
            self._scanned_at = time.monotonic()
            self._send_files(are_final=is_over)
        if is_over:
            self._send_checkpoints()
        while self._grow(GROWING[1], self._new_bytes(GROWING[1])) and is_over:
            pass
        self._grow(GROWING[0], events if is_over else complete)
        if is_over:
            self._is_over = True
            self._send({"over": True, "why": self._job.mistake})

    def _grow(self, name: str, added: bytes) -> bool:
        """Sends the next bytes of a growing file; returns whether there were any."""
        if added:
            self._send({"grow": name, "at": self._received[name]}, added)
            self._received[name] += len(added)
        return bool(added)

    def _new_bytes(self, name: str) -> bytes:
        assert self._run is not None
        try:
            with open(self._run / name, "rb") as file:
                file.seek(self._received[name])
                return file.read(MOST_BYTES)
        except FileNotFoundError:
            return b""

    def _send_files(self, *, are_final: bool) -> None:
        assert self._run is not None and self._sent is not None
        found = files_below(self._run, left_out=OF_THIS_MACHINE | {*GROWING, "checkpoints"})
        for name, (size, modified) in found.items():
            is_settled = are_final or size < LARGE_BYTES or self._modified.get(name) == modified
            self._modified[name] = modified
            if is_settled and self._sent.get(name) != modified:
                self._send_file(name)

    def _send_checkpoints(self) -> None:
        """Sends the checkpoints that have not arrived, then the files that point to them."""
        assert self._run is not None and self._sent is not None
        folder = self._run / "checkpoints"
        for manifest in sorted(folder.glob("step-*/manifest.json")):
            name = f"checkpoints/{manifest.parent.name}"
            if self._sent.get(f"{name}/{manifest.name}") != manifest.stat().st_mtime_ns:
                for file in sorted(manifest.parent.iterdir(), key=lambda file: file == manifest):
                    self._send_file(f"{name}/{file.name}")
        for name in ("latest", "best"):
            if (folder / name).exists():
                self._send_file(f"checkpoints/{name}")
        self._send({"fetched": True})

    def _send_file(self, name: str) -> None:
        assert self._run is not None and self._sent is not None
        try:
            for part in file_frames(self._run / name, name):
                _write(self._output, part)
            self._sent[name] = (self._run / name).stat().st_mtime_ns
        except FileNotFoundError:
            pass  # deleted meanwhile: an older checkpoint, or a file that is replaced

    def _clean_up(self) -> None:
        if self._job is not None and self._job.has_started():
            self._job.clean_up()
        os.chdir("/")
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # raised if it contains other runs
            self._folder.parent.rmdir()

    def _send(self, header: Mapping[str, Any], payload: bytes = b"") -> None:
        _write(self._output, frame({**header}, payload))


def _run_in(folder: Path) -> Path | None:
    """The run directory in the folder of a run, with the same name as on the relay's machine; None if missing."""
    return next((folder / "run").glob("*"), None) if folder.is_dir() else None


def sent_data() -> Path:
    """The folder of data that other machines have sent."""
    return cache_folder() / "sent"


def _write(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]


def main(words: list[str]) -> int:
    """The agent's command line; standard input and output are the connection."""
    named, through = words
    output = os.dup(1)
    os.dup2(2, 1)  # output of libraries must not mix with frames
    _write(output, MARK)
    folder = Path(named) if os.path.isabs(named) else cache_folder() / "remote" / named
    try:
        Agent(folder, through, output, shares_files=os.path.isabs(named)).serve(0)
    except TrainerError as error:
        _write(output, frame({"mistake": str(error)}))
        return 2
    except BrokenPipeError:
        return 0  # the relay is gone
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
