"""The other runs of the folder: summaries, best values and configurations of all, whole series of the marked ones.

They are read in limited time like the run itself; a run is read again only when its events have grown.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.rundir import ALIVE, EventTail, HeartbeatMonitor, RunPaths, RunSummary, list_runs, open_run, summarize
from trainer.tui.validations import Validations
from trainer.tui.view import View

LIST_SECONDS = 5.0
"""Seconds between two listings of the folder, each of which opens every run."""

CONFIGS_TOGETHER = 4
"""Maximum number of configurations read for one frame."""


class Siblings:
    """The runs in the folder of one run, or chosen runs.

    Args:
        run: one of the runs; its curves are shown.
        chosen: the runs, by resolved path; the curves of all are shown. Empty: all runs in the folder.

    Attributes:
        root: the folder of all runs; None if they are in several folders.
        summaries: by path, in the order in which the runs were started.
        validations: by path, the validation metrics.
        configs: by path, the values of the configuration by dotted key.
        marked: the runs whose curves are shown, by path, in the order in which they were marked.
    """

    def __init__(self, run: RunPaths, chosen: Sequence[Path] = ()) -> None:
        self._chosen = tuple(map(RunPaths, chosen))
        folders = {path.parent for path in chosen} or {run.root.resolve().parent}
        self.root = next(iter(folders)) if len(folders) == 1 else None
        self.summaries: dict[Path, RunSummary] = {}
        self.validations: dict[Path, Validations] = {}
        self.configs: dict[Path, Mapping[str, Any]] = {}
        self.marked: dict[Path, View] = {}
        self._tails: dict[Path, EventTail] = {}
        self._read: dict[Path, int] = {}
        self._monitors: dict[Path, HeartbeatMonitor] = {}
        self._listed_at = -LIST_SECONDS
        self._waiting: list[RunPaths] = []
        for path in chosen or (run.root.resolve(),):
            self.mark(path)

    def poll(self, now: float, max_seconds: float) -> None:
        """Reads new summaries and records, for at most about `max_seconds`; `now` is in seconds since 1970."""
        deadline = time.perf_counter() + max_seconds
        if not self._waiting and (now - self._listed_at >= LIST_SECONDS or now < self._listed_at):
            self._listed_at = now
            self._waiting = self._runs()[::-1]
            order = [paths.root for paths in reversed(self._waiting)]
            self.summaries = {path: self.summaries[path] for path in order if path in self.summaries}
        while self._waiting and time.perf_counter() < deadline:
            paths = self._waiting.pop(0)
            if self._has_changed(paths):
                monitor = self._monitors.setdefault(paths.root, HeartbeatMonitor(is_trusting=False))
                self.summaries[paths.root] = summarize(paths, monitor)
                self.validations.setdefault(paths.root, Validations(paths.events)).at_end = False
        for validations in self.validations.values():
            if not validations.at_end and (left := deadline - time.perf_counter()) > 0:
                validations.poll(left)
        for path, tail in self._tails.items():
            left = deadline - time.perf_counter()
            if left <= 0:
                break
            for record in tail.poll(left):
                self.marked[path].apply(record)

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read."""
        is_unread = any(not validations.at_end for validations in self.validations.values())
        return (
            bool(self._waiting) or is_unread or any(tail.size > 0 and not tail.at_end for tail in self._tails.values())
        )

    def listed(self) -> list[RunSummary]:
        """All summaries so far, the latest run first."""
        return sorted(self.summaries.values(), key=lambda run: (-(run.started or 0.0), run.name))

    def read_configs(self) -> None:
        """Reads the configurations of the first few runs without a known configuration."""
        from trainer.tui.comparison import config_of, leaves  # reads YAML: most of a second where cores are busy

        for path in [path for path in self.summaries if path not in self.configs][:CONFIGS_TOGETHER]:
            self.configs[path] = dict(leaves(config_of(open_run(path))))

    def mark(self, path: Path) -> None:
        """Shows this run's curves, or hides them again."""
        if path in self.marked:
            self._tails.pop(path).close()
            del self.marked[path]
        else:
            self.marked[path] = View(path.name, leading=RunPaths(path).leading_metric)
            self._tails[path] = EventTail(RunPaths(path).events)

    def differences(self) -> Mapping[str, tuple[Any, ...]]:
        """The values in the marked runs' configurations by dotted key, only for keys whose values differ."""
        from trainer.tui.comparison import compare

        return compare([open_run(path) for path in self.marked]).config if len(self.marked) > 1 else {}

    def close(self) -> None:
        """Closes the files."""
        for tail in self._tails.values():
            tail.close()

    def _runs(self) -> list[RunPaths]:
        return list(self._chosen) if self._chosen or self.root is None else list_runs(self.root)

    def _has_changed(self, paths: RunPaths) -> bool:
        try:
            size = paths.events.stat().st_size
        except OSError:
            size = 0
        known = self.summaries.get(paths.root)
        may_change = known is None or known.status in (*ALIVE, "lost")
        if not may_change and self._read.get(paths.root) == size:
            return False
        self._read[paths.root] = size
        return True
