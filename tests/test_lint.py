"""The linter is part of the test command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def test_the_linter_finds_nothing():
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--output-format", "concise", "."]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, f"\n{done.stdout}{done.stderr}"
