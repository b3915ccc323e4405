"""Kills one process of multi-process trainings by SIGKILL, repeatedly, until they end, and checks that the results have
the same bits as a training that was never killed.

    start with 2 or 4 processes → kill one → start with 1, 2 or 4 → … → one process, or an end before the kill → compare

An attempt spends most of its time starting, so each attempt except the last is killed. A seed and the number of the
training decide which process is killed and when, so that an interrupted series resumes as the same one.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil
from killed import PATIENCE_SECONDS, SETTINGS, cache_environment, difference, phase_of, records_of

from trainer.rundir import EndEvent, RunPaths

LONGEST_SECONDS = 10.0
"""Maximum time from the kill to the end of the command, which must name the lost rank."""

PROCESSES = (1, 2, 4)
WORDS = ("digits", *SETTINGS, "data.valid_batch_size=128", "train.shards=4", "data.workers=0", "autotune.mode=off")
RANK, RANK_VARIABLE = "trainer.cli.rank", "PMI_RANK"


@dataclass(frozen=True)
class KilledRank:
    """The result of a kill. There is no difference if the attempt ended in time and the training has the same bits.

    Attributes:
        training: number of the training. processes: number of ranks. phase: phase of the kill.
        seconds: time from the kill to the end of the command.
    """

    training: int
    processes: int
    phase: str
    seconds: float
    difference: str


class KilledRanks:
    """Kills ranks, with runs and caches in `folder`."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._folder, self._seed = folder, seed
        self._lives: dict[int, float] = {}
        self._whole = RunPaths(folder / "whole")
        if code := self._run(self._whole.root, 1):
            raise RuntimeError(f"the run that is not killed ended with {code}: {self._whole.root}")

    def kills(self, training: int) -> list[KilledRank]:
        """Returns the kills of one more training; none if it ended before the first kill."""
        chance = random.Random(f"{self._seed} {training}")
        run = RunPaths(self._folder / f"killed-{training}")
        kills: list[KilledRank] = []
        processes, code = chance.choice(PROCESSES[1:]), 0
        while processes > 1 and (kill := self._killed(training, run, processes, chance)) is not None:
            kills.append(kill)
            processes = chance.choice(PROCESSES)
        if processes == 1:
            code = self._run(run.root, processes)
        problem = f"the resumed run ended with {code}" if code else difference(self._whole, run)
        return [kill if kill.difference else replace(kill, difference=problem) for kill in kills]

    def _command(self, run: Path, processes: int) -> list[str]:
        words = [*WORDS, f"train.processes={processes}", "--run-dir", str(run), "--resume", "auto", "--plain"]
        return [sys.executable, "-P", "-m", "trainer.cli", "run", *words]

    def _start(self, run: Path, processes: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(run, processes), env=cache_environment(self._folder / "cache"), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _run(self, run: Path, processes: int) -> int:
        """Trains to the end; returns the exit code."""
        return self._start(run, processes).wait()

    def _life(self, processes: int) -> float:
        """Returns the lifetime in seconds of the ranks of a training without kills, with its kernels in the cache."""
        for name in () if processes in self._lives else ("first", "whole"):
            started = self._start(self._folder / f"{name}-{processes}", processes)
            _ranks(started, processes)
            began = time.monotonic()
            started.wait()
            self._lives[processes] = time.monotonic() - began
        return self._lives[processes]

    def _killed(self, training: int, run: RunPaths, processes: int, chance: random.Random) -> KilledRank | None:
        """Kills once, without comparing the training's result; returns None if the training had ended before."""
        instant, place = chance.uniform(0, self._life(processes)), chance.randrange(processes)
        before = run.last_attempt if run.root.exists() else 0
        started = self._start(run.root, processes)
        ranks = _ranks(started, processes)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(instant)
        if (code := started.poll()) is not None:
            return KilledRank(training, processes, "", 0.0, f"it ended with {code} before the kill") if code else None
        everything = psutil.Process(started.pid).children(recursive=True)
        victim, begun, killed_at = ranks[place], time.monotonic(), time.time()
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            victim.kill()
        try:
            code = started.wait(PATIENCE_SECONDS)
        finally:
            seconds = time.monotonic() - begun
            _, left = psutil.wait_procs(everything, timeout=max(0.0, LONGEST_SECONDS - seconds))
            for process in (*left, *([started] if started.poll() is None else [])):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        if not code:
            return None
        records = [record for record in records_of(run) if record.attempt == before + 1]
        ended = [record.event for record in records if isinstance(record.event, EndEvent)]
        problem = ""
        if seconds > LONGEST_SECONDS:
            problem = f"it ended {seconds:.1f} s after the kill"
        elif left:
            problem = f"left behind: {[process.pid for process in left]}"
        elif ended and not _names(str(ended[-1].reason), place):
            problem = f"process {victim.pid} was killed, but the end event reports: {ended[-1].reason}"
        phase = phase_of(record.event for record in records if record.time <= killed_at)
        return KilledRank(training, processes, phase, round(seconds, 2), problem)


def _names(reason: str, rank: int) -> bool:
    """Returns whether the reason of an end names a rank."""
    return f"rank {rank} " in reason


def _ranks(started: subprocess.Popen[bytes], processes: int) -> list[psutil.Process]:
    """Waits for all processes that train and returns them by rank; fewer if the command ends before all exist."""
    found: dict[int, psutil.Process] = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while started.poll() is None and len(found) < processes and time.monotonic() < deadline:
        time.sleep(0.02)
        with contextlib.suppress(psutil.Error):
            every = psutil.Process(started.pid).children(recursive=True)
            found = {int(each.environ()[RANK_VARIABLE]): each for each in every if _is_rank(each)}
    return [found[rank] for rank in sorted(found)]


def _is_rank(process: psutil.Process) -> bool:
    """Returns whether a process trains: the launcher, its shells and the command itself have other arguments."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return RANK in words and Path(words[0]).name == Path(sys.executable).name


def series(kills: KilledRanks, count: int, known: Path | None) -> Iterator[KilledRank]:
    """Yields `count` kills: those in the file `known`, then new ones, which are appended to it."""
    lines = known.read_text(encoding="utf-8").splitlines() if known is not None and known.exists() else []
    found = [KilledRank(**json.loads(line)) for line in lines]
    yield from found[:count]
    done, training = len(found), found[-1].training if found else 0
    while done < count:
        training += 1
        for kill in kills.kills(training):
            if known is not None:
                with known.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(kill)) + "\n")
            done += 1
            if done <= count:
                yield kill
