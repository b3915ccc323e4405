"""The relay: takes the worker's place on this machine for a run that trains on another one.

    check the config → reach the agent → make the run directory, take its lock → report to the command → transfer →
      { receive files and events · forward requests and signals · reconnect } → release the lock

Nothing is written before the agent has answered. A signal while the connection is lost ends only the relay: the run
continues, and `trainer run --resume RUN` continues to receive it from the next byte on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from trainer import TrainerError, configs
from trainer.cli.attempt import Attempt
from trainer.cli.environment import git_state
from trainer.cli.exit_codes import BY_SIGNAL, CHECKPOINT_SIGNAL, FAILURE, TERMINATED, USER_MISTAKE
from trainer.cli.find import RUNS, find_run
from trainer.cli.order import Order
from trainer.cli.prepare import AUTO, CHECKPOINTS, prepare, split_words
from trainer.cli.remote.frames import file_frames, files_below, frame
from trainer.cli.remote.jobs import WAITING
from trainer.cli.remote.mirror import GROWING, Mirror
from trainer.cli.remote.parcel import Parcel, parcel_of
from trainer.cli.remote.places import Connection, ConnectionLost, Place, place_named
from trainer.cli.remote.record import RemoteAttempt, here, there, unfinished
from trainer.rundir import (
    EndEvent,
    LogEvent,
    PhaseEvent,
    Request,
    RunLock,
    RunPaths,
    WarningEvent,
    gone,
    last_records,
    waiting_requests,
)

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_BEATS = 2.0
SECONDS_BEFORE_RETRY, MOST_SECONDS_BEFORE_RETRY = 1.0, 30.0
"""Seconds before the first attempt to reconnect, doubled each time up to the maximum."""


class _Interrupted(Exception):
    """A signal arrived before the start."""


def relay(order: Order, ready: Callable[[Attempt], None], parent: int | None) -> int:
    """Executes an order on another machine; returns the exit code.

    Args:
        order: the order of `trainer run`.
        ready: receives the attempt once its run directory exists.
        parent: the process whose end also ends the run, if any.

    Raises:
        TrainerError: the order is invalid, or the place can't be reached; no run directory is created then.
    """
    record = unfinished_run(order)
    if record is not None:
        return _continued(order, *record, ready, parent)
    assert order.on is not None
    place = place_named(order.on, order.python)
    if order.sent and place.host is None:
        raise TrainerError(
            "Slurm and Ray share this machine's files", where="--send", found=" ".join(order.sent),
            expected="--send with --on ssh:HOST",
        )  # fmt: skip
    root = Path(order.run_dir or f"{RUNS}/{order.run_name}")
    if order.resume in (None, AUTO):
        target, overrides = split_words(order.words, resuming=False)
        assert target is not None
        configs.load(target, overrides)  # errors appear before the other machine is contacted
    else:
        named = Path(order.resume)
        root = named.parent.parent if named.parent.name == CHECKPOINTS else find_run(order.resume).root
    folder = f"{root.stem}-{os.urandom(6).hex()}"
    connection = Connection(place, folder if place.host else str(root.parent.absolute() / ".remote" / folder))
    try:
        attempt, loaded = prepare(order)
    except BaseException:
        connection.close()
        raise
    assert attempt.lock is not None
    record_here = RemoteAttempt(
        attempt.number, order.on, order.python, connection.about["folder"], attempt.process_start
    )
    circumstances = json.loads(attempt.paths.environment(attempt.number).read_text(encoding="utf-8"))
    mirror = Mirror(attempt.paths, record_here, {**circumstances, "git": git_state(os.getcwd())})
    signals = _Signals(parent)
    with attempt.lock as lock:
        ready(attempt)
        session = _Session(order, mirror, place, lock, signals, connection)
        try:
            session.transfer(loaded, attempt)
        except _Interrupted as interrupted:
            session.give_up(EndEvent("interrupted", interrupted.args[0], reason="interrupted before training began"))
            return int(interrupted.args[0])
        except (TrainerError, ConnectionLost) as error:
            session.give_up(EndEvent("failed", USER_MISTAKE, reason=str(error)))
            return USER_MISTAKE
        return session.run()


def unfinished_run(order: Order) -> tuple[RunPaths, RemoteAttempt] | None:
    """The unfinished remote attempt that an order resumes, with its run; None without one."""
    if order.resume is None:
        return None
    if order.resume == AUTO:
        if not (order.run_dir or order.name):
            return None
        paths = RunPaths(Path(order.run_dir or f"{RUNS}/{order.name}"))
        if not paths.root.is_dir():
            return None
    else:
        try:
            paths = find_run(order.resume)
        except TrainerError:
            return None  # a checkpoint, or no run; `prepare` reports which
    record = unfinished(paths)
    return None if record is None else (paths, record)


def _continued(
    order: Order, paths: RunPaths, record: RemoteAttempt, ready: Callable[[Attempt], None], parent: int | None
) -> int:
    """Continues to receive an attempt whose relay ended before it."""
    if order.resume != AUTO and (order.words or order.on not in (None, record.place)):
        raise TrainerError(
            "this run still trains, or has ended without its results having arrived", where=str(paths.root),
            found=f"on {record.place}", expected="--resume alone, which continues to receive it",
        )  # fmt: skip
    lock = RunLock(paths, notice=lambda text: print(text, file=sys.stderr, flush=True))
    lock.acquire()
    with lock:
        environment = paths.environment(record.number)
        known = json.loads(environment.read_text(encoding="utf-8"))
        mirror = Mirror(paths, record, {name: known[name] for name in ("command", "directory", "git") if name in known})
        connection = Connection(record.where(), record.folder)
        if not connection.about["exists"]:
            connection.close()
            end = _end_of(paths, record)
            if end is None:
                end = EndEvent("failed", FAILURE, reason=f"{record.place} has no such run any more: {record.folder}")
                mirror.say(end)
            record.is_over = True
            record.write(paths)
            ready(Attempt(paths, record.number, record.process_start))
            return end.exit_code
        signals = _Signals(parent)
        ready(Attempt(paths, record.number, record.process_start))
        return _Session(order, mirror, record.where(), lock, signals, connection).run()


def _end_of(paths: RunPaths, record: RemoteAttempt) -> EndEvent | None:
    """The `end` event of an attempt, or of the last one that a scheduler started to continue it; None if missing."""
    records = [one for one in last_records(paths.events) if one.attempt >= record.number]
    last = max((one.attempt for one in records), default=0)
    return next((one.event for one in records if one.attempt == last and isinstance(one.event, EndEvent)), None)


class _Session:
    """Carries out one attempt.

    Args:
        connection: the first connection to the agent; it is replaced when lost.
    """

    def __init__(
        self, order: Order, mirror: Mirror, place: Place, lock: RunLock, signals: _Signals, connection: Connection
    ) -> None:
        self._order, self._mirror, self._place, self._lock, self._signals = order, mirror, place, lock, signals
        self._paths, self._record = mirror.paths, mirror.record
        self._connection: Connection | None = connection
        self._beat_at, self._retry_at, self._pause = 0.0, 0.0, SECONDS_BEFORE_RETRY
        self._asked: set[str] = set()
        self._is_checkpoint_asked = self._is_interrupted = self._is_waiting = False
        self._unanswered: list[int] = []
        self._is_gone = False
        self._why = ""

    def transfer(self, loaded: configs.Loaded, attempt: Attempt) -> None:
        """Sends everything that the run needs, and starts it.

        Raises:
            TrainerError: something is missing, or the place refuses.
            ConnectionLost: the connection was lost before the start.
            _Interrupted: a signal arrived.
        """
        connection = self._connection
        assert connection is not None
        parcel = parcel_of(loaded, self._order.sent, connection.about, is_remote=self._place.host is not None)
        config = str(self._paths.config(attempt.number).absolute())
        self._record.pairs = [*parcel.pairs, [config, f"{self._record.folder}/config.yaml"]]
        self._mirror.say(PhaseEvent("transfer", "started", now=self._place.text))
        for remote, path in parcel.data.items():
            self._send_changes(remote, path)
        for remote, path in parcel.code.items():
            self._send_file(path, remote)
        for remote, target in parcel.links.items():
            connection.send({"link": remote, "to": target})
        self._send_text("config.yaml", parcel.config)
        run = f"{self._record.folder}/run/{self._paths.name}"
        if attempt.resumes:
            self._send_checkpoints(run, attempt, parcel)
        self._mirror.say(PhaseEvent("transfer", "finished"))
        self._mirror.begin()
        self._record.has_started = True  # from here on, the worker may have started
        self._record.write(self._paths)
        threads = [] if loaded.config.threads is None else [f"threads={loaded.config.threads}"]
        order = Order(
            (f"{self._record.folder}/config.yaml", *threads), 0, self._order.command, run_dir=run,
            resume=AUTO, debug=self._order.debug, force=self._order.force,
        )  # fmt: skip
        answer = connection.answer(
            {"start": order.to_json(), "seconds": time.time() - self._record.process_start, "name": self._paths.name}
        )
        if "mistake" in answer:
            raise TrainerError(self._here(answer["mistake"]))

    def give_up(self, end: EndEvent) -> None:
        """Ends an attempt that was not started."""
        self._mirror.say(end)
        self._conclude()
        if self._connection is not None:
            with suppress(ConnectionLost):
                self._connection.send({"done": True})
            self._connection.close()

    def run(self) -> int:
        """Receives the run until its end, through any number of connections; returns the exit code."""
        if self._connection is not None:
            self._follow(self._connection)
        while True:
            try:
                if self._look():
                    break
            except ConnectionLost as lost:
                self._disconnected(str(lost))
            except TrainerError:
                if not gone(self._paths.root) or self._connection is None:
                    raise
                self._is_gone = True  # the run ends, as on this machine
                self._connection.send({"interrupt": int(signal.SIGTERM)})
            if self._connection is None and self._signals.last:
                return BY_SIGNAL[self._signals.last[-1]]
        assert self._connection is not None
        if error := gone(self._paths.root):
            self._connection.close()  # files that have not arrived stay there
            raise error
        end = _end_of(self._paths, self._record)
        if end is None:
            end = self._end_without_event()
            self._mirror.say(end)
        self._conclude()
        with suppress(ConnectionLost):
            self._connection.send({"done": True})
        self._connection.close()
        return end.exit_code

    # --- transfer -----------------------------------------------------------------------------------------------------

    def _send_changes(self, remote: str, path: Path) -> None:
        """Transfers new and changed files below a folder, and deletes remote files that no longer exist here."""
        assert self._connection is not None
        own = files_below(path)
        known = {name: tuple(value) for name, value in self._connection.answer({"list": remote})["files"].items()}
        for name in known.keys() - own.keys():
            self._connection.send({"delete": f"{remote}/{name}"})
        changed = [name for name, value in own.items() if known.get(name) != value]
        total = sum(own[name][0] for name in changed) / 1e6
        done = shown_at = 0.0
        for name in changed:
            self._send_file(path if name == "." else path / name, remote if name == "." else f"{remote}/{name}")
            done += own[name][0] / 1e6
            if time.monotonic() - shown_at > 1.0:
                shown_at = time.monotonic()
                self._mirror.say(PhaseEvent("transfer", "progress", done, total, "MB", str(path)))

    def _send_file(self, path: Path, remote: str) -> None:
        assert self._connection is not None
        try:
            for part in file_frames(path, remote):
                self._connection.write(part)
                self._beat()
                if self._signals.last:
                    raise _Interrupted(BY_SIGNAL[self._signals.last[0]])
        except OSError as error:
            raise TrainerError("can't read a file to transfer", where=str(path), found=error.strerror) from error

    def _send_text(self, remote: str, text: str) -> None:
        assert self._connection is not None
        self._connection.write(frame({"put": remote, "at": 0, "modified": time.time_ns()}, text.encode()))

    def _send_checkpoints(self, run: str, attempt: Attempt, parcel: Parcel) -> None:
        """Transfers the config of the earlier attempt, and the checkpoints from which this one continues."""
        latest = attempt.checkpoint or self._paths.pointed("latest")
        if latest is None and any(self._paths.checkpoints.glob("step-*")):
            raise TrainerError("the run has checkpoints, but none is the latest", where=str(self._paths.checkpoints))
        before = attempt.number - 1
        config = self._paths.config(before).read_text(encoding="utf-8")
        self._send_text(f"{run}/config-{before}.yaml", there(config, parcel.pairs))
        best = self._paths.pointed("best")
        for folder in {one for one in (latest, best) if one is not None}:
            for file in sorted(folder.iterdir(), key=lambda file: file.name == "manifest.json"):
                self._send_file(file, f"{run}/checkpoints/{folder.name}/{file.name}")
        for name, chosen in (("latest", latest), ("best", best)):
            if chosen is not None:
                self._send_text(f"{run}/checkpoints/{name}", f"{chosen.name}\n")

    # --- while it trains ----------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Handles pending work once; returns whether everything has arrived."""
        self._beat()
        connection = self._connection
        if connection is None:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            if time.monotonic() >= self._retry_at:
                self._reconnect()
            return False
        self._forward(connection)
        for header, payload in connection.receive(SECONDS_BETWEEN_LOOKS):
            if self._is_gone and "over" not in header:
                continue
            match header:
                case {"grow": name, "at": at}:
                    self._mirror.grow(name, at, payload)
                    if self._is_checkpoint_asked and name == GROWING[0] and b'"kind":"checkpoint"' in payload:
                        self._is_checkpoint_asked = False
                        connection.send({"fetch": True})
                case {"put": _}:
                    self._mirror.take(header, payload)
                case {"stage": stage}:
                    if (stage == WAITING) != self._is_waiting:
                        self._is_waiting = not self._is_waiting
                        state = "started" if self._is_waiting else "finished"
                        self._mirror.say(PhaseEvent("queue", state, now=self._place.through))
                case {"has_taken": identity}:
                    (self._paths.control / f"{identity}.json").unlink(missing_ok=True)
                case {"has_interrupted": number}:
                    self._unanswered.remove(number)
                case {"over": _, "why": why}:
                    self._why = why
                    return True
                case {"mistake": text}:
                    raise TrainerError(self._here(text))
            self._beat()
        return False

    def _forward(self, connection: Connection) -> None:
        """Forwards requests and signals."""
        for request in waiting_requests(self._paths):
            if request.id not in self._asked:
                self._asked.add(request.id)
                self._is_checkpoint_asked |= request.what == "checkpoint"
                connection.send({"request": _text(request), "id": request.id})
        for number in self._signals.take():
            if number == CHECKPOINT_SIGNAL:
                self._is_checkpoint_asked = True
                request = Request(f"{time.time_ns():020d}-{os.getpid()}-signal", "checkpoint", {})
                connection.send({"request": _text(request), "id": request.id})
            else:
                self._is_interrupted = True
                self._unanswered.append(number)
                connection.send({"interrupt": number})

    def _beat(self) -> None:
        if time.monotonic() - self._beat_at > SECONDS_BETWEEN_BEATS:
            self._beat_at = time.monotonic()
            self._lock.heartbeat()
            self._signals.look_after_parent()

    def _follow(self, connection: Connection) -> None:
        received = {name: self._mirror.received(name) for name in GROWING}
        connection.send({"follow": self._mirror.modified(), "received": received})
        for number in self._unanswered:
            connection.send({"interrupt": number})

    def _disconnected(self, why: str) -> None:
        assert self._connection is not None
        self._connection.close()
        self._connection = None
        self._asked.clear()
        self._retry_at = time.monotonic() + self._pause
        self._mirror.say(WarningEvent(f"the connection to {self._place.text} is lost: {why}; the run goes on there"))

    def _reconnect(self) -> None:
        try:
            connection = Connection(self._place, self._record.folder)
            if not connection.about["exists"]:
                raise TrainerError(f"{self._place.text} has no such run any more", found=self._record.folder)
            self._follow(connection)
        except (TrainerError, ConnectionLost):
            self._pause = min(2 * self._pause, MOST_SECONDS_BEFORE_RETRY)
            self._retry_at = time.monotonic() + self._pause
            return
        self._connection, self._pause = connection, SECONDS_BEFORE_RETRY
        self._mirror.say(LogEvent(f"connected to {self._place.text} again"))

    def _conclude(self) -> None:
        self._record.is_over = True
        self._record.write(self._paths)

    def _end_without_event(self) -> EndEvent:
        if self._is_interrupted or not self._why:
            return EndEvent("interrupted", TERMINATED, reason="interrupted before training began")
        return EndEvent("failed", USER_MISTAKE, reason=self._here(self._why))

    def _here(self, text: str) -> str:
        """A message from the other machine, with the paths of this one."""
        text = here(text, self._record.pairs)
        if self._place.host is not None and "no such" in text:
            text += f"\n  Paths are those of {self._place.host}; --send PATH transfers a file or folder from here."
        return text


class _Signals:
    """The signals that the relay receives, for the worker.

    Args:
        parent: the process whose end counts as SIGTERM, if any.
    """

    def __init__(self, parent: int | None) -> None:
        self._parent, self._waiting = parent, list[int]()
        self.last: list[int] = []
        for number in BY_SIGNAL:
            signal.signal(number, self._note)
        if CHECKPOINT_SIGNAL is not None:
            signal.signal(CHECKPOINT_SIGNAL, self._note)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (CHECKPOINT_SIGNAL,))

    def take(self) -> list[int]:
        """The signals since the last call."""
        self._waiting, taken = [], self._waiting
        self.last.clear()
        return taken

    def look_after_parent(self) -> None:
        """Counts the end of the parent as a signal."""
        if self._parent is not None and os.getppid() != self._parent:
            self._parent = None
            self._note(signal.SIGTERM, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append(number)
        if number in BY_SIGNAL:
            self.last.append(number)


def _text(request: Request) -> str:
    return json.dumps({"what": request.what, **request.fields})
