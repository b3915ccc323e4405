"""`trainer report`: writes a report of a run as a single web page that needs no network, or as Markdown."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer report                       the latest run; a run named digits gives digits.html
  trainer report digits-2 -o report.html
  trainer report digits-2 -o report.md     numbers and tables as Markdown
  trainer report digits --samples 20   more images from earlier steps
  trainer report sweeps/digits         a sweep: trials, parallel coordinates, importance
"""

HINT = ""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="a run directory, the name of a run in runs/, or the folder of a sweep (default: the latest run)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file, as Markdown if its name ends in .md (default: the run's name with .html)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=4,
        metavar="N",
        help="number of images per sample name, the newest ones (default: 4)",
    )


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer import TrainerError
    from trainer.cli.find import find_run, find_sweep
    from trainer.cli.progress_line import ProgressLine
    from trainer.cli.report import Source, markdown_report, report_page
    from trainer.rundir import open_run, write_text
    from trainer.tui.numbers import size

    if arguments.samples < 0:
        raise TrainerError("invalid number of images", found=str(arguments.samples), expected="0 or more")
    sweep = find_sweep(arguments.run)
    if sweep is not None:
        from trainer.cli.report.sweep import sweep_markdown, sweep_page
        from trainer.rundir.sweeps import read_state

        file = Path(arguments.output or f"{sweep.root.name}.html")
        page = (sweep_markdown if file.suffix == ".md" else sweep_page)(sweep, read_state(sweep))
    else:
        run = open_run(find_run(arguments.run).root)
        file = Path(arguments.output or f"{run.name}.html")
        line = ProgressLine()
        source = Source(run, arguments.samples)
        if file.suffix == ".md":
            page = markdown_report(source)
        else:
            page = report_page(source, lambda done, total, now: line.note(f"{done}/{total} {now}"))
        line.clear()
    write_text(file, page)
    print(f"{file} ({size(len(page.encode()))})")
    return 0
