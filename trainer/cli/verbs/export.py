"""`trainer export`: what a run tells, for another tool."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer export digits --to csv
  trainer export digits --to tensorboard folder=logs/digits
  trainer export digits --to wandb project=digits
  trainer export digits --to mlflow tracking_uri=http://localhost:5000
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run directory, or its name below runs/ (default: the latest)"
    )
    parser.add_argument(
        "--to", required=True, metavar="SINK", help="csv, tensorboard, wandb or mlflow, or another's name"
    )
    parser.add_argument("options", nargs="*", metavar="key=value", help="what the sink is made with")


def execute(arguments: argparse.Namespace) -> int:
    import sys

    from trainer import TrainerError
    from trainer.cli.find import find_run
    from trainer.cli.sinks import make_sink
    from trainer.configs.reader import plain_value
    from trainer.rundir import read_events

    words = [word for word in (arguments.run, *arguments.options) if word is not None]
    names = [word for word in words if "=" not in word]
    if len(names) > 1:
        raise TrainerError("one run is exported at a time", found=", ".join(names), expected="RUN key=value …")
    paths = find_run(names[0] if names else None)
    pairs = (word.partition("=") for word in words if "=" in word)
    sink = make_sink(arguments.to, paths, {key: plain_value(value) for key, _, value in pairs})
    records = read_events(paths.events)
    for done, record in enumerate(records, start=1):
        sink.record(record)
        if done % 1000 == 0 and sys.stderr.isatty():
            sys.stderr.write(f"\r{done}/{len(records)} records")
    sink.close()
    print(f"{paths.name}: {len(records)} records to {arguments.to}")
    return 0
