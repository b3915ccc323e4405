"""A bare shell of widgets on a terminal, for dashboard.py: the time that Textual alone needs until its first frame.

python benchmarks/bare_shell.py [--beside]     with --beside, a worker's imports load at the same time
"""

from __future__ import annotations

import subprocess
import sys

WORKER = "import trainer.engine, trainer.learner, trainer.datasets, trainer.cli.worker"


def main() -> None:
    """With --beside, starts the worker's imports first, as `trainer run` does; the key q quits."""
    beside = subprocess.Popen([sys.executable, "-P", "-c", WORKER]) if "--beside" in sys.argv[1:] else None

    from textual.app import App, ComposeResult
    from textual.widgets import Static

    class BareShell(App[None]):
        """Eight bordered boxes in a grid."""

        CSS = "Screen { layout: grid; grid-size: 4 2; } Static { border: round gray; height: 1fr; }"
        BINDINGS = [("q", "quit", "quit")]

        def compose(self) -> ComposeResult:
            for name in ("config", "phases", "loss", "valid", "rate", "system", "log", "bare"):
                yield Static(name)

    BareShell().run(mouse=False)
    if beside is not None:
        beside.wait()


if __name__ == "__main__":
    main()
