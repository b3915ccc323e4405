"""Trainings in several processes of which one is killed by SIGKILL, resumed with any number, each held against one that
never was.

Which process is killed and when follow from a seed and the number of the kill, so that an interrupted series continues
as the same one.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from killed import PATIENCE_SECONDS, SETTINGS, cache_environment, difference, phase_of, records_of

from trainer.rundir import EndEvent, RunPaths

LONGEST_SECONDS = 10.0
"""From the kill to the end of the command, with the lost rank named."""

PROCESSES = (2, 4)
RESUMED = (1, 2, 4)
WORDS = ("digits", *SETTINGS, "data.valid_batch_size=128", "train.shards=4", "data.workers=0", "autotune.mode=off")
RANK = "trainer.cli.rank"


@dataclass(frozen=True)
class KilledRank:
    """What came of a training of which a rank was killed: "" where it ended in time and was resumed to the same bits.

    Attributes:
        number: of the kill. processes, resumed: how many trained before and after it. phase: in which it happened.
        seconds: from the kill to the end of the command.
    """

    number: int
    processes: int
    resumed: int
    phase: str
    seconds: float
    difference: str


class KilledRanks:
    """Kills of ranks; runs and caches lie in `folder`."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._folder, self._seed = folder, seed
        self._lives: dict[int, float] = {}
        self._whole = RunPaths(folder / "whole")
        if code := self._run(self._whole.root, 1):
            raise RuntimeError(f"the run that is not killed ended with {code}: {self._whole.root}")

    def kill(self, number: int) -> KilledRank:
        """One more kill; a training that had ended before does not count."""
        chance = random.Random(f"{self._seed} {number}")
        processes, resumed = chance.choice(PROCESSES), chance.choice(RESUMED)
        found = None
        while found is None:
            run = RunPaths(self._folder / f"killed-{number}-{chance.randrange(1 << 30)}")
            found = self._killed(run, processes, chance)
        phase, seconds, problem = found
        if not problem:
            done = self._run(run.root, resumed)
            problem = f"the resumed run ended with {done}" if done else difference(self._whole, run)
        return KilledRank(number, processes, resumed, phase, round(seconds, 2), problem)

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
        """How many seconds the ranks of a training live that is not killed."""
        if processes not in self._lives:
            started = self._start(self._folder / f"whole-{processes}", processes)
            _ranks(started, processes)
            began = time.monotonic()
            started.wait()
            self._lives[processes] = time.monotonic() - began
        return self._lives[processes]

    def _killed(self, run: RunPaths, processes: int, chance: random.Random) -> tuple[str, float, str] | None:
        """The phase, the seconds until the end and a problem, if any; None where the training had ended before."""
        instant, place = chance.uniform(0, self._life(processes)), chance.randrange(processes)
        started = self._start(run.root, processes)
        ranks = _ranks(started, processes)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(instant)
        if started.poll() is not None or len(ranks) < processes or not ranks[place].is_running():
            started.wait()
            return None
        everything = psutil.Process(started.pid).children(recursive=True)
        victim, begun, known = ranks[place], time.monotonic(), _known(run, processes)
        victim.kill()
        try:
            code = started.wait(PATIENCE_SECONDS)
        finally:
            seconds = time.monotonic() - begun
            _, left = psutil.wait_procs(everything, timeout=max(0.0, LONGEST_SECONDS - seconds))
            for process in (*left, *([started] if started.poll() is None else [])):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        events = [record.event for record in records_of(run)]
        if not code:
            return None
        ended = [event for event in events if isinstance(event, EndEvent)]
        problem = ""
        if seconds > LONGEST_SECONDS:
            problem = f"it ended {seconds:.1f} s after the kill"
        elif left:
            problem = f"left behind: {[process.pid for process in left]}"
        elif victim.pid in known and ended and not _names(str(ended[-1].reason), known[victim.pid], victim.pid):
            problem = f"process {victim.pid} was killed, and the end says: {ended[-1].reason}"
        return phase_of(events), seconds, problem


def _known(run: RunPaths, processes: int) -> dict[int, int]:
    """The ranks by their processes, once all have a heartbeat: before, the launcher ends all of them."""
    found = {}
    for path in run.root.glob("ranks/*/*.json"):
        with contextlib.suppress(OSError, ValueError):
            found[int(json.loads(path.read_text(encoding="utf-8"))["pid"])] = int(path.stem)
    return found if len(found) == processes else {}


def _names(reason: str, rank: int, pid: int) -> bool:
    """Whether the reason of an end names a rank. Rank 0 has no time to write one."""
    return f"rank {rank} (pid {pid} " in reason or (rank == 0 and "rank 0 of the training died" in reason)


def _ranks(started: subprocess.Popen[bytes], processes: int) -> list[psutil.Process]:
    """The processes that train, once all of them exist; fewer where the command ends before."""
    found: list[psutil.Process] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while started.poll() is None and len(found) < processes and time.monotonic() < deadline:
        time.sleep(0.02)
        with contextlib.suppress(psutil.Error):
            found = [each for each in psutil.Process(started.pid).children(recursive=True) if _is_rank(each)]
    return sorted(found, key=lambda process: process.pid)


def _is_rank(process: psutil.Process) -> bool:
    """Whether a process trains: the launcher, its shells and the command itself have other words."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return RANK in words and Path(words[0]).name == Path(sys.executable).name


def series(kills: KilledRanks, count: int, known: Path | None) -> Iterator[KilledRank]:
    """`count` kills: those in the file `known`, and new ones, which are added to it."""
    done = 0
    if known is not None and known.exists():
        for line in known.read_text(encoding="utf-8").splitlines()[:count]:
            yield KilledRank(**json.loads(line))
            done += 1
    for number in range(done + 1, count + 1):
        found = kills.kill(number)
        if known is not None:
            with known.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        yield found
