"""`trainer doctor`: describes this installation and its problems."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.cli.examination import Findings
    from trainer.engine.autotune.cache import Entry

EXAMPLES = (
    """\
  trainer doctor
  trainer doctor --json
  trainer doctor resume config.yaml    check that a kill doesn't """
    """change results; see its --help
  trainer doctor cache                 the caches on disk: location, size, """
    """contents
  trainer doctor cache --decisions     and every autotuning decision
  trainer doctor cache --clear    """
    """     delete compiled kernels and autotuning decisions
"""
)


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("about", nargs="?", choices=("cache",), help="cache: show the caches only")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--decisions", action="store_true", help="with cache: list every autotuning decision")
    parser.add_argument("--clear", action="store_true", help="with cache: delete the contents of the caches")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.about == "cache":
        return _cache(arguments)
    if arguments.clear or arguments.decisions:
        from trainer import TrainerError

        raise TrainerError("--clear and --decisions need `trainer doctor cache`")
    from trainer.cli.examination import examine

    findings = examine()
    if arguments.json:
        import json

        print(json.dumps({"facts": findings.facts, "problems": findings.problems}, indent=1))
    else:
        import shutil
        import sys

        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(report_lines(findings, columns)))
    return 1 if findings.problems else 0


def _cache(arguments: argparse.Namespace) -> int:
    """Lists the caches, or clears them."""
    import dataclasses
    import json

    from trainer.cli.caches import caches, clear
    from trainer.rundir import write_error

    found = caches()
    if arguments.clear:
        for cache in found:
            try:
                clear(cache)
            except OSError as error:
                raise write_error(cache.folder, error) from error
    decisions = _decisions() if arguments.decisions and not arguments.clear else []
    if arguments.json:
        facts = [
            {"name": cache.name, "folder": str(cache.folder), "files": len(cache.files), "bytes": cache.nbytes,
             "decisions": cache.decisions, "cleared": arguments.clear}
            for cache in found
        ]  # fmt: skip
        print(json.dumps({"caches": facts, "entries": [dataclasses.asdict(entry) for entry in decisions]}, indent=1))
        return 0
    width = max(len(cache.name) for cache in found)
    for cache in found:
        held = f"{len(cache.files)} files, {cache.nbytes / 1e6:.1f} MB"
        held += "" if cache.decisions is None else f", {cache.decisions} decisions"
        print(f"{cache.name:{width}}  {cache.folder}: {held}" + (", deleted" if arguments.clear else ""))
    for entry in decisions:
        gain = "" if None in (entry.default_ms, entry.best_ms) else f" {entry.default_ms:9.3f} {entry.best_ms:9.3f} ms"
        print(f"  {entry.key[:8]}{gain}  {entry.operation} {entry.shape}")
    return 0


def _decisions() -> list[Entry]:
    """The decisions for this machine's processor."""
    from trainer.engine.autotune.cache import TuningCache, cache_path

    return TuningCache(cache_path()).entries()


def report_lines(findings: Findings, columns: int | None) -> list[str]:
    """The facts in two columns, then the problems; long lines wrap with an indent."""
    import textwrap

    width = max(map(len, findings.facts), default=0)
    rows = [(f"{name:{width}}  ", value) for name, value in findings.facts.items()]
    rows += [("problem: ", problem) for problem in findings.problems] or [("", "no problems found")]
    lines = []
    for label, text in rows:
        room = len(label + text) if columns is None else max(columns, len(label) + 20)
        indent = " " * len(label)
        lines += textwrap.wrap(
            text, room, initial_indent=label, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return lines
