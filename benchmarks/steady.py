"""Memory growth and resource leaks of all processes of a training in half an hour.

python benchmarks/steady.py [memory_growth leaks] [--minutes 30] [--json] [--table FILE]

The run has two loader workers, validation, reports, samples, metrics folded in a separate process, background tuning
and a checkpoint every few seconds. Its readers are the command that started it, `trainer watch --plain` and a dashboard
on a terminal of 160x50. Every few seconds, each process is sampled:

    memory     its private pages and its share of shared memory, without pages of files (programs, libraries), whose
               share changes with every other process that maps them
    threads, files, maps, children;  shared memory of the system (/dev/shm)

memory_growth is the growth of total memory from the first to the last fifth of the second half, in percent (medians).
leaks is the number of threads, files, maps, children and shared blocks that the last fifth of the second half has more
than its first fifth. The minimum of each fifth counts, because a process that writes a checkpoint has files open.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import fcntl
import functools
import os
import pty
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from harness import Figure, checkout_environment, run_figures

WORKLOAD = Path(__file__).parent / "workloads" / "steady"
COMMAND = (sys.executable, "-P", "-m", "trainer.cli")
SECONDS_BETWEEN_LOOKS = 5.0
COUNTED = ("threads", "files", "maps", "children")
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Look:
    """One sample of one process; `memory` in bytes, `seconds` since the watch began."""

    seconds: float
    process: str
    memory: int
    threads: int
    files: int
    maps: int
    children: int


@dataclass(frozen=True)
class Watched:
    """All samples of all processes, and the number of shared blocks in the system at each round of samples."""

    looks: tuple[Look, ...]
    blocks: tuple[tuple[float, int], ...]


def look(name: str, process: psutil.Process, seconds: float) -> Look:
    """Samples one process.

    Raises:
        psutil.NoSuchProcess, OSError: the process has ended.
    """
    with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as file:
        memory = sum(int(line.split()[1]) << 10 for line in file if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    with open(f"/proc/{process.pid}/maps", encoding="utf-8", errors="replace") as file:
        maps = sum(1 for _ in file)
    return Look(
        seconds, name, memory, process.num_threads(), process.num_fds(), maps, len(process.children())
    )  # fmt: skip


def watch(roots: dict[str, psutil.Process], seconds: float) -> Watched:
    """Samples processes and all their children for a number of seconds."""
    looks: list[Look] = []
    blocks: list[tuple[float, int]] = []
    names: dict[int, str] = {}
    started = time.monotonic()
    while (now := time.monotonic() - started) < seconds:
        for name, root in roots.items():
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                    called = names.setdefault(process.pid, name if process == root else name_of(process, names))
                    looks.append(look(called, process, now))
        blocks.append((now, len(os.listdir("/dev/shm"))))
        time.sleep(max(0.0, SECONDS_BETWEEN_LOOKS - (time.monotonic() - started - now)))
    return Watched(tuple(looks), tuple(blocks))


def name_of(process: psutil.Process, known: dict[int, str]) -> str:
    """Names a process by the module that it runs and a number that tells several of them apart."""
    words = process.cmdline()
    module = words[words.index("-m") + 1] if "-m" in words else Path(words[0]).name if words else "?"
    same = sum(1 for name in known.values() if name.partition(" ")[0] == module)
    return f"{module} {same + 1}"


@contextlib.contextmanager
def on_a_terminal(words: Sequence[str], folder: Path, environment: dict[str, str]) -> Iterator[psutil.Process]:
    """Runs a command on a pseudo-terminal whose output is read."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    environment = {**environment, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment, start_new_session=True
    )
    os.close(slave)
    reader = threading.Thread(target=_drain, args=(master,), daemon=True)
    reader.start()
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        reader.join()
        os.close(master)


def _drain(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # the other end is closed: Linux raises EIO
        while os.read(descriptor, 1 << 16):
            pass


@functools.cache
def watched(minutes: float, table: Path | None) -> Watched:
    """Starts the run and its readers, and samples them from the first checkpoint on."""
    folder = Path(tempfile.mkdtemp(prefix="trainer-benchmark-"))
    environment = checkout_environment(TRAINER_CACHE_DIR=str(folder / "cache"))
    config = shutil.copytree(WORKLOAD, folder / "steady", ignore=shutil.ignore_patterns("__pycache__")) / "config.yaml"
    run = folder / "run"
    with open(folder / "output", "wb") as output:
        training = subprocess.Popen(
            [*COMMAND, "run", str(config), "--plain", "--run-dir", str(run)],
            cwd=folder, env=environment, stdout=output, stderr=output,
        )  # fmt: skip
        plain: subprocess.Popen[bytes] | None = None
        try:
            _wait_for_a_checkpoint(run, training, folder / "output")
            plain = subprocess.Popen(
                [*COMMAND, "watch", str(run), "--plain"], cwd=folder, env=environment, stdout=subprocess.DEVNULL
            )
            with on_a_terminal([*COMMAND, "watch", str(run)], folder, environment) as dashboard:
                roots = {"command": training.pid, "plain": plain.pid, "dashboard": dashboard.pid}
                found = watch({name: psutil.Process(pid) for name, pid in roots.items()}, 60 * minutes)
                for name, pid in roots.items():
                    if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                        raise RuntimeError(f"{name} has ended: see {folder}")
        finally:
            training.terminate()
            training.wait()
            if plain is not None:
                plain.wait()
    shutil.rmtree(folder, ignore_errors=True)
    if table is not None:
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(Look.__dataclass_fields__)
            writer.writerows(vars(one).values() for one in found.looks)
    for line in by_process(found):
        print(line, file=sys.stderr)
    return found


def _wait_for_a_checkpoint(run: Path, training: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (run / "checkpoints" / "latest").exists():
        if training.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the run did not get going:\n{output.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


def fifths(moments: Sequence[float]) -> tuple[float, float]:
    """Returns when the first fifth of the second half ends, and when its last fifth begins."""
    end = max(moments)
    return 0.6 * end, 0.9 * end


def of_first_and_last(looks: Sequence[Look]) -> tuple[list[Look], list[Look]]:
    """Returns the samples of the first and of the last fifth of the second half."""
    until, since = fifths([one.seconds for one in looks])
    half = max(one.seconds for one in looks) / 2
    return [one for one in looks if half <= one.seconds <= until], [one for one in looks if one.seconds >= since]


def total_memory(looks: Sequence[Look]) -> float:
    """Returns the median, over time, of the total memory of all processes."""
    sums: dict[float, int] = {}
    for one in looks:
        sums[one.seconds] = sums.get(one.seconds, 0) + one.memory
    return statistics.median(sums.values())


def memory_growth(found: Watched) -> float:
    """Growth of total memory in percent."""
    first, last = of_first_and_last(found.looks)
    return 100 * (total_memory(last) / total_memory(first) - 1)


def leaks(found: Watched) -> float:
    """Number of counted resources that were not released."""
    return float(sum(max(0, after - before) for _, _, before, after in counts(found)))


def counts(found: Watched) -> list[tuple[str, str, int, int]]:
    """Returns (process, resource, minimum in the first fifth, minimum in the last); later processes begin with 0."""
    first, last = of_first_and_last(found.looks)
    counted = []
    for name in dict.fromkeys(one.process for one in (*first, *last)):
        for what in COUNTED:
            before = min((getattr(one, what) for one in first if one.process == name), default=0)
            after = min((getattr(one, what) for one in last if one.process == name), default=0)
            counted.append((name, what, before, after))
    until, since = fifths([moment for moment, _ in found.blocks])
    half = max(moment for moment, _ in found.blocks) / 2
    before = min(count for moment, count in found.blocks if half <= moment <= until)
    return [*counted, ("system", "shared blocks", before, min(count for at, count in found.blocks if at >= since))]


def by_process(found: Watched) -> Iterator[str]:
    """Yields a line per process: its memory at both ends of the second half, and changes of its resources."""
    first, last = of_first_and_last(found.looks)
    more = [(name, f"{after - before:+} {what}") for name, what, before, after in counts(found) if after != before]
    for name in dict.fromkeys(one.process for one in (*first, *last)):
        ends = [[one for one in looks if one.process == name] for looks in (first, last)]
        sizes = [f"{total_memory(looks) / 1e6:.2f}" if looks else "-" for looks in ends]
        yield f"{name:38} {sizes[0]:>8} → {sizes[1]:>8} MB  " + ", ".join(told for at, told in more if at == name)
    yield from (f"{name:38} {told}" for name, told in more if name == "system")


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--table", type=Path)
    own, rest = parser.parse_known_args()

    def once() -> Watched:
        return watched(own.minutes, own.table)

    return run_figures(
        [
            Figure("memory_growth", lambda: memory_growth(once()), bar=1.0, unit="%", rounds=1, is_timing=False),
            Figure("leaks", lambda: leaks(once()), bar=0.5, unit="left", rounds=1, is_timing=False),
        ],
        rest,
    )


if __name__ == "__main__":
    sys.exit(main())
