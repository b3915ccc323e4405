"""The page of all measured figures, docs/results.md, and the figures that other texts take from the same results.

    python benchmarks/published.py           writes the page, and fills in the marked figures
    python benchmarks/published.py --check   exits with 1 and names the files that differ

A text takes a figure from the results between two comments: the benchmark, the figure, `ours`, `peer` or `ratio`, and
how Python formats it.

    <!-- figure: steps resnet50 ratio .2f -->1.54<!-- end -->
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import recipes
from harness import ROOT
from recording import newest

BENCHMARKS = ROOT / "benchmarks"
PAGE = ROOT / "docs" / "results.md"
MARKED = re.compile(r"(<!-- figure: (\S+) (\S+) (\S+) (\S+) -->)(.*?)(<!-- end -->)")
VERDICTS = {True: "reached", False: "**missed**", None: "can't tell"}
INTRODUCTION = """\
# Results

Every figure here was measured by the command above its table. `benchmarks/results/` keeps it with its commit, machine
and versions; `python benchmarks/published.py` makes this page of the newest line of each figure.

A ratio above 1 is better than the peer, or than the bound where there is no peer. The range behind it holds the middle
half of the rounds, or all figures of a family. A figure can't be told where its rounds lie on both sides of the bar, or
where other processes used the machine.
"""
RECIPES = """\
`python benchmarks/recipes.py NAME --seed N`, with `--beside PYTHON` for the relation to PyTorch. Means over seeds on
the test split, with weights chosen on the validation split. The seconds are those of the slowest run, from the command
to its exit. `python benchmarks/recipes.py --table` names the results that are older than what they depend on.
"""


def page(figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """The text of docs/results.md.

    Args:
        figures: by benchmark and figure, the line of results.
    """
    parts = [INTRODUCTION, "## Recipes\n", RECIPES, _recipes()]
    for benchmark, lines in figures.items():
        parts += [f"## {benchmark}\n", f"{_summary(benchmark)}\n"]
        for (command, machine, versions), group in _by_origin(lines.values()).items():
            parts += [f"```sh\n{command}\n```\n", f"{machine}; {versions}.\n", _table(group)]
    return "\n".join(parts)


def filled(text: str, figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """The text with each marked figure as it was measured last.

    Raises:
        ValueError: a figure was not recorded.
    """

    def value(found: re.Match[str]) -> str:
        begin, benchmark, name, field, form, _, end = found.groups()
        line = figures.get(benchmark, {}).get(name)
        if line is None or not isinstance(line.get(field), float):
            raise ValueError(f"{benchmark} {name} {field}: found no such figure in benchmarks/results/figures; record "
                             f"it: python benchmarks/{benchmark}.py {name} --record")  # fmt: skip
        return f"{begin}{line[field]:{form}}{end}"

    return MARKED.sub(value, text)


def texts() -> Iterator[Path]:
    """The files that may have marked figures."""
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md")
    yield from sorted((ROOT / "docs").glob("*.md"))
    yield from sorted((ROOT / "trainer" / "recipes").glob("*/README.md"))


def differing(*, write: bool) -> list[Path]:
    """The files whose figures are not those of the results; with `write` they are written."""
    figures = newest()
    changed = []
    for file in dict.fromkeys((PAGE, *texts())):
        known = file.read_text(encoding="utf-8") if file.exists() else ""
        wanted = page(figures) if file == PAGE else filled(known, figures)
        if wanted != known:
            changed.append(file)
            if write:
                file.write_text(wanted, encoding="utf-8")
    return changed


def _recipes() -> str:
    rows = [
        "| recipe | metric | seeds | mean | bar | verdict | seconds | commit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in recipes.ROWS.items():
        runs, pairs = recipes.results(name), recipes.latest(recipes.recorded(name), "peer")
        values = recipes.means(row, runs, pairs)
        seconds = recipes.known_seconds(name)
        for bar in row.bars:
            lines = pairs if bar.by_peer else runs
            value = values.get(bar.name)
            is_told = len(lines) >= row.seeds
            verdict = "not measured yet" if value is None else VERDICTS[bar.is_reached(value) if is_told else None]
            commits = ", ".join(dict.fromkeys(str(line["revision"]) for line in lines))
            rows.append(
                f"| `{name}` | {bar.name} | {len(lines)} of {row.seeds} | {'' if value is None else f'{value:.4g}'} | "
                f"{_bounds(bar)} | {verdict} | {'' if seconds is None else f'{seconds:.0f} of {row.seconds:.0f}'} | "
                f"{commits} |"
            )
    return "\n".join(rows) + "\n"


def _bounds(bar: recipes.Bar) -> str:
    bounds = ((bar.least, "at least"), (bar.most, "at most"))
    told = " and ".join(f"{word} {bound:g}" for bound, word in bounds if bound is not None)
    return f"{told} ({bar.note})" if bar.note else told


def _summary(benchmark: str) -> str:
    """The first sentence of the benchmark's docstring."""
    told = ast.get_docstring(ast.parse((BENCHMARKS / f"{benchmark}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(told.partition("\n\n")[0].split())


def _by_origin(lines: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
    """Lines by their command (without the figure), machine and versions."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        machine, peers = line["machine"], line["peer_versions"]
        described = f"{machine['processor']}, {machine['threads']} threads, {machine['memory']} GB, {machine['system']}"
        both = {f"{name} {version}": None for name, version in [*line["versions"].items(), *peers.items()]}
        command = line["command"].removesuffix(f" {line['name']}")
        groups.setdefault((command, described, ", ".join(both)), []).append(line)
    return groups


def _table(lines: Sequence[Mapping[str, Any]]) -> str:
    rows = ["| figure | ours | peer | ratio | bar | verdict | date | commit |", "|---|---|---|---|---|---|---|---|"]
    for line in lines:
        unit, peer, ratio, spread = (line[name] for name in ("unit", "peer", "ratio", "spread"))
        measured = "" if ratio is None else f"{ratio:.3f} ({spread[0]:.3f} to {spread[1]:.3f})"
        bar = f"{line['bar']:g}" if peer is not None else f"{line['bar']:g} {unit}"
        rows.append(
            f"| `{line['name']}` | {line['ours']:.4g} {unit} | {'' if peer is None else f'{peer:.4g} {unit}'} | "
            f"{measured} | {bar} | {VERDICTS[line['ok']]} | {line['date']} | {line['revision']} |"
        )
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write or, with `--check`, only name what differs."""
    is_check = "--check" in arguments
    changed = differing(write=not is_check)
    for file in changed:
        print(f"{file.relative_to(ROOT)} {'differs: python benchmarks/published.py' if is_check else 'written'}")
    return int(is_check and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
