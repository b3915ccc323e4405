"""The type checker is part of the test command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def test_the_type_checker_finds_nothing():
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, f"\n{done.stdout}{done.stderr}"
