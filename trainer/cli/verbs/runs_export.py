"""`trainer runs export`: exports the metrics of a run to another tool."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer runs export digits --to csv
  trainer runs export digits --to tensorboard folder=logs/digits
  trainer runs export digits --to wandb project=digits
  trainer runs export digits --to mlflow tracking_uri=http://localhost:5000
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run directory, or the name of a run in runs/ (default: the latest)"
    )
    parser.add_argument(
        "--to", required=True, metavar="SINK", help="csv, tensorboard, wandb, mlflow, or a sink of another package"
    )
    parser.add_argument("options", nargs="*", metavar="key=value", help="options of the sink")


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer import TrainerError
    from trainer.cli.find import find_run
    from trainer.cli.progress_line import ProgressLine
    from trainer.cli.sinks import make_sink
    from trainer.configs.reader import plain_value
    from trainer.rundir import read_events

    words = [word for word in (arguments.run, *arguments.options) if word is not None]
    names = [word for word in words if "=" not in word]
    if len(names) > 1:
        raise TrainerError("only one run can be exported at a time", found=", ".join(names), expected="RUN key=value …")
    paths = find_run(names[0] if names else None)
    pairs = (word.partition("=") for word in words if "=" in word)
    try:
        options = {key: plain_value(value) for key, _, value in pairs}
    except ValueError as error:
        raise TrainerError(str(error)) from error
    sink = make_sink(arguments.to, paths, options)
    if Path(sink.place).is_file():
        raise TrainerError(
            "the file already exists", where=sink.place, hint="Delete it, or choose another with path=…."
        )
    records = read_events(paths.events)
    line = ProgressLine()
    show = line.of("records")
    for done, record in enumerate(records, start=1):
        sink.record(record)
        show(done, len(records))
    sink.close()
    line.clear()
    print(f"{paths.name}: {len(records)} records to {sink.place}")
    return 0
