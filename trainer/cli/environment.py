"""Records the environment of a run in `environment-N.json`, so that results can be reproduced.

Modules needed only for the file are imported when it is written, after the worker's first message.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from trainer import __version__
from trainer.cli.system import gpu_names
from trainer.rundir import EventSink, WarningEvent, replacing

PACKAGES = (
    "llvmlite", "msgspec", "numpy", "nvidia-ml-py", "pillow", "psutil", "pycocotools", "pydantic", "PyYAML", "textual",
)  # fmt: skip
PATIENCE_SECONDS = 5.0
LONGEST_DIFFERENCE = 1 << 20
"""Maximum bytes kept of the working tree's diff."""


class EnvironmentRecorder:
    """Completes the file in a thread during the run; leaving the context waits briefly for it."""

    def __init__(self, path: Path, sink: EventSink) -> None:
        self._path, self._sink = path, sink
        self._thread = threading.Thread(target=self._complete, name="environment", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._thread.join(PATIENCE_SECONDS)

    def _complete(self) -> None:
        try:
            complete_environment(self._path)
        except OSError as error:
            self._sink(WarningEvent(f"can't complete the environment file: {error}", where=str(self._path)))


def complete_environment(path: Path) -> None:
    """Adds the slow entries to the file, which contains the command and its directory.

    Raises:
        OSError: the file can't be written.
    """
    import platform

    from trainer.engine.targets.cpu.topology import available_threads

    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = {
        **known,
        "trainer": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "packages": package_versions(),
        "cpu": {"name": cpu_name(), "features": cpu_features(), "threads": available_threads()},
        "gpus": gpu_names(),
        "git": git_state(known.get("directory", os.getcwd())),
    }
    with replacing(path) as aside:
        aside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def package_versions() -> dict[str, str | None]:
    """The installed version of each required package; None if it is missing."""
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def cpu_name() -> str:
    """The processor's name, as reported by the system."""
    import platform

    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


def cpu_features() -> list[str]:
    """The processor's features as listed by Linux; empty on other systems."""
    info = _cpuinfo()
    return sorted((info.get("flags") or info.get("Features") or "").split())


def git_state(directory: str) -> dict[str, Any] | None:
    """Revision and uncommitted diff of the repository around a directory; None outside of a repository."""
    import subprocess

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", *words],
                cwd=directory,
                capture_output=True,
                timeout=PATIENCE_SECONDS,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None

    revision = git("rev-parse", "HEAD")
    if revision is None:
        return None
    difference = git("diff", "HEAD") or ""
    return {
        "revision": revision.strip(),
        "difference": difference[:LONGEST_DIFFERENCE],
        "difference_cut": len(difference) > LONGEST_DIFFERENCE,
    }


def _cpuinfo() -> dict[str, str]:
    """The lines of the first processor in /proc/cpuinfo."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
