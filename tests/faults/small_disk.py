"""A private file system at ./disk, for a command: small, or read-only."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache


def on_disk(options: str) -> list[str]:
    """The beginning of a command that sees a file system of its own at ./disk."""
    mount = f'mount -t tmpfs -o {options} tmpfs disk && "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]


@cache
def can_mount() -> bool:
    """Whether this user may mount file systems in a namespace of their own."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/disk")
        try:
            return subprocess.run([*on_disk("size=8k"), "true"], cwd=folder, capture_output=True).returncode == 0
        except FileNotFoundError:
            return False
