"""Writes docs/results.md, the page of all measured figures, and updates marked figures in other texts.

    python benchmarks/published.py           writes the page and updates the marked figures
    python benchmarks/published.py --check   only lists the files that differ; exits with 1 if there are any

Two comments enclose a marked figure. The first names the benchmark, the figure, the field (`ours`, `peer` or `ratio`)
and the Python format. For a recipe, the figure is a metric and the field `mean` (over seeds) or `ratio` (to PyTorch);
or the figure is `time` (of the slowest run), and the field `seconds` or `minutes`, rounded up.

    <!-- figure: steps resnet50 ratio .2f -->1.54<!-- end -->
    <!-- figure: recipes detection/test/ema/coco/AP mean .3f -->0.606<!-- end -->

A table of a recipe's runs and their requirements has a column for each metric:

    <!-- runs: detection; AP: test/ema/coco/AP .4f; AP50: test/ema/coco/AP50 .4f -->
    <!-- end -->

What a command printed is recorded by writing it to a file of benchmarks/results/outputs:

    <!-- output: cores -->
    <!-- end -->
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import recipes
from harness import ROOT
from provenance import CORES, lowering_of
from recording import newest, newest_of_machines

from trainer.engine.targets.cpu.machine import AVX512

BENCHMARKS = ROOT / "benchmarks"
OUTPUTS = BENCHMARKS / "results" / "outputs"
PAGE = ROOT / "docs" / "results.md"
MARKED = re.compile(r"(<!-- figure: (\S+) (\S+) (\S+) (\S+) -->)(.*?)(<!-- end -->)")
OUTPUT = re.compile(r"(<!-- output: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
RUNS = re.compile(r"(<!-- runs: (\w+); (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
VERDICTS = {True: "reached", False: "**missed**", None: "can't tell"}
INTRODUCTION = """\
# Results

The command above each table measures its figures. `benchmarks/results/` has every measurement with its commit, machine
and versions. `python benchmarks/published.py` generates this page from the newest one of each figure and processor.

A ratio above 1 means better than the peer or, without a peer, than the bar. The range in parentheses contains the
middle half of the rounds, or the figures that a mean summarizes. The verdict is "can't tell" if rounds lie on both
sides of the bar, or if other processes used the machine.
"""
RECIPES = """\
`python benchmarks/recipes.py NAME --seed N`, with `--beside PYTHON` for the relation to PyTorch. Means over seeds on
the test split, with weights chosen on the validation split. The seconds are those of the slowest run, from the command
to its exit. `python benchmarks/recipes.py --table` names the results that are older than what they depend on.
"""


def page(figures: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """Returns the text of docs/results.md.

    Args:
        figures: lines of results by benchmark.
    """
    parts = [INTRODUCTION, "## Recipes\n", RECIPES, _recipes()]
    for benchmark, lines in figures.items():
        parts += [f"## {benchmark}\n", f"{_summary(benchmark)}\n"]
        for (command, machine, versions), group in _by_origin(lines).items():
            parts += [f"```sh\n{command}\n```\n", f"{machine}; {versions}.\n", _table(group)]
    return "\n".join(parts)


def filled(text: str, figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Returns the text with the latest measurement of each marked figure.

    Raises:
        ValueError: a figure or an output was not recorded.
    """

    def value(found: re.Match[str]) -> str:
        begin, benchmark, name, field, form, _, end = found.groups()
        line = figures.get(benchmark, {}).get(name)
        if line is None or type(line.get(field)) not in (int, float):
            command = f"{name.partition('/')[0]} --seed 0" if benchmark == "recipes" else f"{name} --record"
            raise ValueError(f"{benchmark} {name} {field}: found no such figure in benchmarks/results; "
                             f"record it: python benchmarks/{benchmark}.py {command}")  # fmt: skip
        return f"{begin}{line[field]:{form}}{end}"

    text = RUNS.sub(lambda found: f"{found[1]}{_runs(found[2], found[3])}{found[5]}", MARKED.sub(value, text))
    return OUTPUT.sub(lambda found: f"{found[1]}{_output(found[2])}{found[4]}", text)


def _output(name: str) -> str:
    """Returns the recorded output of a command: Markdown, or other text as a block of code."""
    file = next(OUTPUTS.glob(f"{name}.*"), None)
    if file is None:
        raise ValueError(
            f"{name}: found no such output in {OUTPUTS}; write what the command prints to {name}.md or .txt"
        )
    text = file.read_text(encoding="utf-8")
    return text if file.suffix == ".md" else f"```text\n{text}```\n"


def of_recipes() -> dict[str, dict[str, float]]:
    """Returns the mean over seeds of each recipe's test metrics, if measured our mean divided by PyTorch's, and the
    time of its slowest run.
    """
    found: dict[str, dict[str, float]] = {}
    for name, row in recipes.ROWS.items():
        runs, pairs = recipes.results(name), recipes.latest(recipes.recorded(name), "peer")
        for metric in runs[0]["metrics"] if runs else ():
            found.setdefault(f"{name}/{metric}", {})["mean"] = recipes.mean(runs, "metrics", metric)
        for bar in row.bars:
            if bar.by_peer and pairs:
                ratio = recipes.means(row, runs, pairs)[bar.name]
                found.setdefault(f"{name}/{bar.metric}", {})["ratio"] = ratio
        if (seconds := recipes.known_seconds(name)) is not None:
            found[f"{name}/time"] = {"seconds": ceil(seconds), "minutes": ceil(seconds / 60)}
    return found


def _runs(name: str, columns: str) -> str:
    """Returns a table of a recipe's runs with one row per seed, then the means and the requirements.

    Args:
        columns: "HEADING: METRIC FORMAT", separated by semicolons. A metric that is compared with PyTorch's has
            two additional columns.
    """
    row, runs, pairs = recipes.ROWS[name], recipes.results(name), recipes.latest(recipes.recorded(name), "peer")
    seconds = {line["seed"]: line["seconds"] for line in recipes.latest(recipes.recorded(name), "seconds")}
    seeds = sorted({line["seed"] for line in (*runs, *pairs)})
    if not seeds:
        return f"Not measured yet: `python benchmarks/recipes.py {name} --seed 0`.\n"
    table = [["seed", *map(str, seeds), "mean", "required"]]
    for column in columns.split("; "):
        heading, _, told = column.rpartition(": ")
        metric, form = told.split()
        table.append([heading, *_cells(_values(runs, "metrics", metric, seeds), form), _required(row, metric, runs)])
        if any(bar.by_peer and bar.metric == metric for bar in row.bars):
            ours, peer = (_values(pairs, kind, metric, seeds) for kind in ("ours", "peer"))
            ratios = [
                one / other if one is not None and other is not None else None
                for one, other in zip(ours, peer, strict=True)
            ]
            table.append([f"{heading} of PyTorch", *_cells(peer, form), ""])
            table.append(
                ["ours relative to PyTorch's", *_cells(ratios, ".3f"), _required(row, metric, pairs, by_peer=True)]
            )
    taken = [f"{seconds[seed]:.0f}" if seed in seconds else "" for seed in seeds]
    is_late = ": **missed**" if max(seconds.values(), default=0.0) > row.seconds else ""
    table.append(["seconds", *taken, "", f"at most {row.seconds:.0f}{is_late}"])
    head, *lines = (f"| {' | '.join(cells)} |" for cells in zip(*table, strict=True))
    return "\n".join((head, "|---" * len(table) + "|", *lines)) + "\n"


def _values(lines: Sequence[Mapping[str, Any]], kind: str, metric: str, seeds: Sequence[int]) -> list[float | None]:
    """Returns a metric of each seed, then its mean; None if it was not measured."""
    known = {line["seed"]: recipes.mean([line], kind, metric) for line in lines}
    return [known.get(seed) for seed in seeds] + [recipes.mean(lines, kind, metric) if lines else None]


def _cells(values: Iterable[float | None], form: str) -> list[str]:
    return ["" if value is None else format(value, form) for value in values]


def _required(row: recipes.Row, metric: str, lines: Sequence[Mapping[str, Any]], *, by_peer: bool = False) -> str:
    """Returns the gating bars of a metric, marked if the lines miss them."""
    told = []
    for bar in row.bars:
        if bar.gates and bar.metric == metric and bar.by_peer == by_peer:
            if len(lines) < row.seeds:
                told.append(f"{_bounds(bar)} ({len(lines)} of {row.seeds} seeds measured)")
            elif bar.is_reached(recipes.means(row, *(([], lines) if by_peer else (lines, [])))[bar.name]):
                told.append(_bounds(bar))
            else:
                told.append(f"{_bounds(bar)}: **missed**")
    return ", ".join(told)


def texts() -> Iterator[Path]:
    """The files that may have marked figures."""
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md")
    yield from sorted((ROOT / "docs").glob("*.md"))
    yield from sorted((ROOT / "trainer" / "recipes").glob("*/README.md"))


def differing(*, write: bool) -> list[Path]:
    """Returns the files whose figures differ from the results; with `write`, updates them."""
    figures = newest()
    known_figures = {**figures, "recipes": of_recipes()}
    changed = []
    for file in dict.fromkeys((PAGE, *texts())):
        known = file.read_text(encoding="utf-8") if file.exists() else ""
        wanted = page(newest_of_machines()) if file == PAGE else filled(known, known_figures)
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
    """The first paragraph of the benchmark's docstring."""
    told = ast.get_docstring(ast.parse((BENCHMARKS / f"{benchmark}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(told.partition("\n\n")[0].split())


def _by_origin(lines: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
    """Groups lines by their command (without the figure), machine and versions."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        machine, peers = line["machine"], line["peer_versions"]
        described = f"{_processor(line)}, {machine['threads']} threads, {machine['memory']} GB, {machine['system']}"
        both = {f"{name} {version}": None for name, version in [*line["versions"].items(), *peers.items()]}
        command = line["command"].removesuffix(f" {line['name']}")
        groups.setdefault((command, described, ", ".join(both)), []).append(line)
    return groups


def _processor(line: Mapping[str, Any]) -> str:
    """The processor's model, whose name may be unspecific, LLVM's name of its cores, and its vector extension."""
    vectors, machine = json.loads(lowering_of(line)).get("vectors", 0), line["machine"]
    core = machine.get("core") or CORES.get(machine.get("features"))
    described = ", ".join([*([core] if core else []), "AVX-512" if vectors >= AVX512.vectors else "AVX2"])
    return f"{machine['processor']} ({described})"


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
    """Writes the files that differ or, with `--check`, only lists them."""
    is_check = "--check" in arguments
    changed = differing(write=not is_check)
    for file in changed:
        print(f"{file.relative_to(ROOT)} {'differs: python benchmarks/published.py' if is_check else 'written'}")
    return int(is_check and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
