"""Measures the dashboard in a real pseudo-terminal of 160x50.

first frame   from starting the command to the run's name and its phases on the screen: the 95th percentile of 20
app           until the app behind that frame has drawn and accepts keys, relative to a bare shell of widgets; launches
              of the two alternate
finished      processor time and terminal output while the dashboard shows a finished run
live          the same for a run that reports ten metric records a second (a simulated worker writes them)
quit          from pressing q to the end of the process
million       a run of a million records: until the first chart, and until the whole run has been read
cold start    a task like pix2pix's, and two recipes, with nothing compiled: the longest time before the first step in
              which the screen shows neither progress nor a running clock
charts        redrawing 20 charts of 100,000 points each
flood         a run that writes 10,000 records a second: the time until a key is answered, the growth of the dashboard's
              memory meanwhile, the cost of a record to its writer, and the number of steps of a training that writes
              records; the last two relative to the same without a dashboard
"""

from __future__ import annotations

import atexit
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import psutil
from harness import ROOT, Figure, checkout_environment, run_figures

sys.path.insert(0, str(ROOT / "tests" / "tui"))

from recorded_terminal import Screen

COLUMNS, ROWS = 160, 50
LAUNCHES = 20
LIVE_SECONDS = 8.0
FLOOD_RATE, FLOOD_SECONDS = 10_000, 16.0
PATIENCE_SECONDS = 60.0
FINISHED = "✓ ".encode()
"""Marks a finished phase. Reading the configuration has finished once the run's directory exists."""

ASKED = b"\x1b[?1000h"
"""Requests mouse events, which the app does once it has drawn."""

COMMAND = (sys.executable, "-P", "-m", "trainer.cli")


class Terminal:
    """A command in a pseudo-terminal; everything it writes is kept."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.output = bytearray()
        self.started = time.perf_counter()
        environment = checkout_environment(TERM="xterm-256color", LC_ALL="C.UTF-8")
        for name in ("NO_COLOR", "SSH_CONNECTION", "COLUMNS", "LINES"):
            environment.pop(name, None)
        self.pid, self.descriptor = _fork_with_terminal(command, environment, folder)

    def read(self, seconds: float) -> bool:
        """Reads what the command writes, for at most `seconds`; returns False once it has closed the terminal."""
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.descriptor, 1 << 16)
        except OSError:  # the other end is closed: Linux raises EIO
            data = b""
        self.output += data
        return bool(data)

    def until(self, *texts: bytes) -> float:
        """Returns the seconds from the start until all texts have been written or are on the screen.

        If a text replaces a similar one, only the differences are written.

        Raises:
            RuntimeError: the command ended or took too long before that.
        """
        screen, shown = Screen(COLUMNS, ROWS), 0
        while not all(text in self.output or text.decode() in screen.text for text in texts):
            if not self.read(1.0) or time.perf_counter() - self.started > PATIENCE_SECONDS:
                raise RuntimeError(f"no {texts} in the output, which ends with {bytes(self.output[-400:])!r}")
            screen.feed(bytes(self.output[shown:]))
            shown = len(self.output)
        return time.perf_counter() - self.started

    def watch_for(self, seconds: float) -> int:
        """Keeps reading for `seconds`; returns the number of bytes."""
        before, end = len(self.output), time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)
        return len(self.output) - before

    def press(self, keys: bytes) -> None:
        """Types these keys."""
        os.write(self.descriptor, keys)

    def wait(self) -> float:
        """Returns the seconds until the command has ended."""
        start = time.perf_counter()
        while self.read(1.0):
            if time.perf_counter() - start > PATIENCE_SECONDS:
                raise RuntimeError("the command does not end")
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        return time.perf_counter() - start


def _fork_with_terminal(command: Sequence[str], environment: dict[str, str], folder: Path) -> tuple[int, int]:
    import fcntl
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder, start_new_session=True
    )
    process.returncode = 0  # waited for by pid in Terminal.wait
    os.close(slave)
    return process.pid, master


@cache
def workspace() -> Path:
    """A folder for this benchmark's runs, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="dashboard-benchmark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def finished_run() -> Path:
    """A finished run with charts."""
    from synthetic_run import write_run

    return write_run(workspace() / "runs" / "finished").root


@cache
def long_run() -> Path:
    """A finished run of a million metric records."""
    from synthetic_run import write_long_run

    return write_long_run(workspace() / "runs" / "long", records=1_000_000).root


def watching(run: Path) -> Terminal:
    """Starts `trainer watch` on a run."""
    return Terminal([*COMMAND, "watch", str(run)], workspace())


def percentile_95(values: Sequence[float]) -> float:
    """The 95th percentile, by the nearest rank."""
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


def launch_watch(*further: bytes) -> float:
    """Returns the milliseconds until `trainer watch` shows a run and has written the texts in `further`."""
    terminal = watching(finished_run())
    seconds = terminal.until(b"phases", b"digits-7", FINISHED, *further)
    terminal.press(b"q")
    terminal.wait()
    return 1e3 * seconds


def first_frame_of_watch() -> float:
    """Returns the 95th percentile of LAUNCHES first frames of `trainer watch`, in milliseconds."""
    return percentile_95([launch_watch() for _ in range(LAUNCHES)])


def app_of_watch() -> float:
    """Returns the milliseconds until the app behind the first frame has drawn its own frame and accepts keys."""
    return launch_watch(ASKED)


def launch_run(*further: bytes) -> float:
    """Returns the milliseconds until `trainer run digits` shows its run, while its worker loads."""
    name = f"frame-{time.monotonic_ns()}"
    terminal = Terminal([*COMMAND, "run", "digits", "--name", name], workspace())
    seconds = terminal.until(b"phases", name.encode(), b"config", *further)
    terminal.press(b"xa")  # aborts the worker, which would disturb the next launch; the dashboard then exits
    terminal.wait()
    return 1e3 * seconds


def first_frame_of_run() -> float:
    """Returns the 95th percentile of LAUNCHES first frames of `trainer run`, in milliseconds."""
    return percentile_95([launch_run() for _ in range(LAUNCHES)])


def app_of_run() -> float:
    """Returns the milliseconds until the app of `trainer run` accepts keys."""
    return launch_run(ASKED)


def _launch_bare(*words: str) -> float:
    terminal = Terminal([sys.executable, "-P", str(ROOT / "benchmarks" / "bare_shell.py"), *words], workspace())
    seconds = terminal.until(b"phases", b"bare", b"config")
    terminal.press(b"q")
    terminal.wait()
    return 1e3 * seconds


def bare_shell(_: str) -> float:
    """Milliseconds until Textual shows a few boxes."""
    return _launch_bare()


def bare_shell_beside_worker(_: str) -> float:
    """Milliseconds until Textual shows a few boxes while a worker's imports load."""
    return _launch_bare("--beside")


def _settled(run: Path) -> Terminal:
    terminal = watching(run)
    terminal.until(b"phases", b"best")
    terminal.watch_for(2.0)
    return terminal


def _cost(terminal: Terminal, seconds: float) -> tuple[float, float]:
    """Returns the percent of a core and the bytes per second of a command, over `seconds`."""
    process = psutil.Process(terminal.pid)
    before = sum(process.cpu_times()[:2])
    written = terminal.watch_for(seconds)
    return 100 * (sum(process.cpu_times()[:2]) - before) / seconds, written / seconds


def _leave(terminal: Terminal) -> float:
    terminal.press(b"q")
    return terminal.wait()


def finished_processor() -> float:
    """Percent of a core while the dashboard shows a finished run."""
    terminal = _settled(finished_run())
    percent, _ = _cost(terminal, LIVE_SECONDS)
    _leave(terminal)
    return percent


def finished_output() -> float:
    """Bytes per second to the terminal while the dashboard shows a finished run."""
    terminal = _settled(finished_run())
    _, bytes_per_second = _cost(terminal, LIVE_SECONDS)
    _leave(terminal)
    return bytes_per_second


def _live_cost() -> tuple[float, float]:
    folder = workspace() / "runs" / f"live-{time.monotonic_ns()}"
    writer = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "tui" / "synthetic_run.py"), str(folder), "--live", "--epochs", "100"],
        env=checkout_environment(),
    )
    try:
        while not (folder / "run.lock").exists():
            time.sleep(0.05)
        time.sleep(6.0)  # past its first validation
        terminal = _settled(folder)
        cost = _cost(terminal, LIVE_SECONDS)
        _leave(terminal)
        return cost
    finally:
        writer.terminate()
        writer.wait()


def live_processor() -> float:
    """Percent of a core while the dashboard shows a live run."""
    return _live_cost()[0]


def live_output() -> float:
    """Bytes per second to the terminal while the dashboard shows a live run."""
    return _live_cost()[1]


def quit_seconds() -> float:
    """Milliseconds from q to the end of the process."""
    terminal = _settled(finished_run())
    return 1e3 * _leave(terminal)


def million_first_chart() -> float:
    """Milliseconds from starting the command to the first chart of a run of a million records."""
    terminal = watching(long_run())
    seconds = terminal.until(b"loss  train", b"step 1000000")
    _leave(terminal)
    return 1e3 * seconds


def million_complete() -> float:
    """Milliseconds until all of a million records have been read."""
    terminal = watching(long_run())
    from synthetic_run import PEAK

    seconds = terminal.until(f"best {PEAK:g}".encode())
    _leave(terminal)
    return 1e3 * seconds


def cold_start_silence(*words: str) -> Callable[[], float]:
    """Measures the longest milliseconds without a change in the phases panel, from first frame to first step."""

    def measure() -> float:
        from cold_start import longest_silence, record_start

        folder = Path(tempfile.mkdtemp(dir=workspace()))
        return 1e3 * longest_silence(record_start(folder, *words))[0]

    return measure


def _flood(seconds: float, *words: str) -> tuple[Path, subprocess.Popen[str]]:
    """Starts a run that is flooded with records; returns its folder and the process that writes them."""
    folder = workspace() / "runs" / f"flood-{time.monotonic_ns()}"
    script = str(ROOT / "tests" / "tui" / "synthetic_run.py")
    words = (str(folder), "--flood", str(FLOOD_RATE), "--seconds", str(seconds), *words)
    writer = subprocess.Popen(
        [sys.executable, script, *words], env=checkout_environment(), stdout=subprocess.PIPE, text=True
    )
    while not (folder / "run.lock").exists():
        time.sleep(0.05)
    return folder, writer


def _told(writer: subprocess.Popen[str]) -> tuple[float, float]:
    """Waits for the end of a flood; returns the microseconds of a record and the training steps per second."""
    record, work = writer.communicate()[0].split()
    return float(record), float(work)


@cache
def _flooded() -> tuple[float, float]:
    """Returns the milliseconds until a key is answered (the maximum of several) and the memory growth in megabytes."""
    folder, writer = _flood(FLOOD_SECONDS)
    terminal = watching(folder)
    terminal.until(b"phases", b"it/s")
    terminal.watch_for(2.0)
    process = psutil.Process(terminal.pid)
    memory, begun, answers = process.memory_info().rss, time.perf_counter(), []
    while time.perf_counter() - begun < FLOOD_SECONDS / 2:
        for _ in range(2):  # opens help, then closes it
            start = time.perf_counter()
            terminal.press(b"?")
            while terminal.watch_for(0.001) < 500 and time.perf_counter() - start < 1:
                pass
            answers.append(time.perf_counter() - start)
            terminal.watch_for(0.3)
    grown = process.memory_info().rss - memory
    writer.communicate()
    _leave(terminal)
    return 1e3 * max(answers), grown / 1e6


def flood_key() -> float:
    """Maximum milliseconds from a key to its effect on the screen while a run writes 10,000 records a second."""
    return _flooded()[0]


def flood_memory() -> float:
    """Growth of the dashboard's memory in half of FLOOD_SECONDS, in megabytes."""
    return _flooded()[1]


def flood_writer() -> float:
    """Microseconds of processor time that a record costs its writer while a dashboard shows the run."""
    return _watched_flood()[0]


def flood_writer_alone(_: str) -> float:
    """Microseconds of processor time that a record costs its writer without a dashboard."""
    return _told(_flood(FLOOD_SECONDS / 2)[1])[0]


def flood_training() -> float:
    """Training steps per second between the records of a flood while a dashboard shows the run."""
    return _watched_flood("--training")[1]


def _watched_flood(*options: str) -> tuple[float, float]:
    """Returns the two values of `_told` for a flood that a dashboard shows."""
    folder, writer = _flood(FLOOD_SECONDS / 2, *options)
    terminal = watching(folder)
    while writer.poll() is None:
        terminal.watch_for(0.1)
    told = _told(writer)
    _leave(terminal)
    return told


def flood_training_alone(_: str) -> float:
    """Training steps per second between the records of a flood without a dashboard."""
    return _told(_flood(FLOOD_SECONDS / 2, "--training")[1])[1]


def twenty_charts() -> float:
    """Milliseconds to redraw 20 charts of 100,000 points after each gets one more point."""
    return _draw_charts()()


@cache
def _draw_charts() -> Callable[[], float]:
    import math
    import random

    from trainer.tui.charts import Chart, Layer
    from trainer.tui.glyphs import UNICODE
    from trainer.tui.plot import draw_chart
    from trainer.tui.series import Series

    noise = random.Random(1)
    series = [Series() for _ in range(20)]
    for one in series:
        for step in range(100_000):
            one.append(step, math.exp(-step / 20_000) + noise.gauss(0, 0.05))
    charts = [Chart("loss", (Layer("loss", one, "smoothed", "train"),)) for one in series]

    def draw() -> float:
        for one in series:
            one.append(len(one), noise.gauss(0, 0.05))
        start = time.perf_counter()
        for chart in charts:
            draw_chart(chart, 48, 20, UNICODE)
        return 1e3 * (time.perf_counter() - start)

    return draw


def silence(name: str, ours: Callable[[], float]) -> Figure:
    """No timing: workers run in their own sessions, whose processor time looks like that of other processes."""
    return Figure(name, ours=ours, bar=500, rounds=1, is_timing=False)


FIGURES = [
    Figure("first_frame_watch_p95", ours=first_frame_of_watch, bar=400, rounds=3),
    Figure("first_frame_run_p95", ours=first_frame_of_run, bar=400, rounds=3),
    Figure("app_watch_to_bare", ours=app_of_watch, peer=bare_shell, bar=0.5, needs_peer_python=False, rounds=9),
    Figure(
        "app_run_to_bare", ours=app_of_run, peer=bare_shell_beside_worker, bar=0.5, needs_peer_python=False, rounds=9
    ),
    Figure("finished_processor", ours=finished_processor, bar=1.0, unit="% of a core", rounds=3),
    Figure("finished_output", ours=finished_output, bar=200, unit="bytes/s", rounds=3),
    Figure("live_processor", ours=live_processor, bar=3.0, unit="% of a core", rounds=3),
    Figure("live_output", ours=live_output, bar=20_000, unit="bytes/s", rounds=3),
    Figure("quit", ours=quit_seconds, bar=1000, rounds=3),
    Figure("million_first_chart", ours=million_first_chart, bar=500, rounds=3),
    Figure("million_complete", ours=million_complete, bar=10_000, rounds=3),
    silence("cold_start_silence", cold_start_silence()),
    silence("cold_start_silence_pix2pix", cold_start_silence("pix2pix")),
    silence("cold_start_silence_detection", cold_start_silence("detection")),
    Figure("twenty_charts", ours=twenty_charts, bar=30, rounds=5),
    Figure("flood_key", ours=flood_key, bar=250, rounds=1, is_timing=False),
    Figure("flood_memory", ours=flood_memory, bar=20, unit="MB", rounds=1, is_timing=False),
    Figure(
        "flood_writer", ours=flood_writer, peer=flood_writer_alone, bar=0.9, unit="µs", needs_peer_python=False,
        rounds=5,
    ),
    Figure(
        "flood_training", ours=flood_training, peer=flood_training_alone, bar=0.9, better="higher", unit="steps/s",
        needs_peer_python=False, rounds=3,
    ),
]  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
