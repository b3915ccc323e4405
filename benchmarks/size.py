"""Disk space of a plain installation: a fresh virtual environment with only `pip install .`.

The size includes pip itself and the bytecode that it compiles, since users get them, too.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from harness import ROOT, Figure, run_figures

MOST_MEGABYTES = 450.0


@functools.cache
def installed_megabytes() -> float:
    """Size of the files below the environment's `lib`, in units of 10^6 bytes. Installs once per process."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        command = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", str(ROOT)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        files = (path for path in Path(folder, "lib").rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_size for path in files) / 1e6


FIGURES = [Figure("installed_size", ours=installed_megabytes, bar=MOST_MEGABYTES, unit="MB", rounds=1, is_timing=False)]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
