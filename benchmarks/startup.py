"""Startup times: help, check, a run's first output, and its first step. Wall time with a warm page cache.

    python benchmarks/startup.py [name …] [--json] [--rounds N]

Each figure has a fixed bound; there is no peer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dashboard import launch_run
from harness import Figure, checkout_environment, command_seconds, run_figures

TRAINER = [sys.executable, "-P", "-m", "trainer.cli"]
PATIENCE_SECONDS = 60.0


def help_ms() -> float:
    return 1e3 * command_seconds([*TRAINER, "--help"])


def check_ms() -> float:
    return 1e3 * command_seconds([*TRAINER, "check", "digits"])


def import_ms() -> float:
    """Time of `import trainer`, minus the time of a bare interpreter, measured just before."""
    bare = command_seconds([sys.executable, "-c", "pass"])
    return 1e3 * (command_seconds([sys.executable, "-c", "import trainer"]) - bare)


def first_line_ms() -> float:
    """Time from the command to the first line of a run without a terminal."""
    return 1e3 * _seconds_until(lambda line: True, "--plain")


def first_step_warm_s() -> float:
    return _seconds_until(_is_metric, "--json")


def first_step_cold_s() -> float:
    """Time from the command to the first training metric, with an empty kernel cache."""
    with tempfile.TemporaryDirectory() as cache:
        return _seconds_until(_is_metric, "--json", TRAINER_CACHE_DIR=cache)


def digits_s() -> float:
    """Time of the whole recipe `digits` with an empty kernel cache. Fails if the test accuracy is below 0.99."""
    with tempfile.TemporaryDirectory() as folder:
        environment = checkout_environment(TRAINER_CACHE_DIR=str(Path(folder) / "cache"))
        start = time.perf_counter()
        done = subprocess.run(
            [*TRAINER, "run", "digits", "--json"],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - start
        accuracy = json.loads(done.stdout.splitlines()[-1])["metrics"]["test/accuracy"]
        if not accuracy >= 0.99:  # NaN fails too
            raise RuntimeError(f"test/accuracy is {accuracy}, below 0.99")
        return seconds


def _is_metric(line: str) -> bool:
    return json.loads(line)["kind"] == "metric"


def _seconds_until(found: Callable[[str], bool], form: str, **variables: str) -> float:
    """Returns the seconds from starting a run of digits to the first line that `found` accepts, then stops the run."""
    with tempfile.TemporaryDirectory() as folder:
        environment = checkout_environment(**variables)
        start = time.perf_counter()
        process = subprocess.Popen(
            [*TRAINER, "run", "digits", form], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found(line):
                    return time.perf_counter() - start
            raise RuntimeError(f"the run ended with {process.wait()} before the expected line")
        finally:
            _stop(Path(folder) / "runs" / "digits")
            process.communicate(timeout=PATIENCE_SECONDS)


def _stop(run: Path) -> None:
    """Stops a run."""
    subprocess.run(
        [*TRAINER, "stop", str(run), "--abort"], env=checkout_environment(), capture_output=True, check=False
    )


FIGURES = [
    Figure("help", help_ms, bar=80.0),
    Figure("check", check_ms, bar=220.0),
    Figure("import", import_ms, bar=50.0),
    Figure("first_line", first_line_ms, bar=250.0),
    Figure("first_frame", launch_run, bar=400.0),
    Figure("first_step_warm", first_step_warm_s, bar=1.5, unit="s", rounds=5),
    Figure("first_step_cold", first_step_cold_s, bar=3.0, unit="s", rounds=5),
    Figure("digits", digits_s, bar=60.0, unit="s", rounds=1),
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
