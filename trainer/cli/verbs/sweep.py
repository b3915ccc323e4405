"""`trainer sweep`: runs a config many times with different values, to find the best ones."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trainer.cli.rehearsal import HINT as HINT
from trainer.cli.rehearsal import add_words

if TYPE_CHECKING:
    from trainer.rundir.sweeps import SweepState, Trial

EXAMPLES = """\
  trainer sweep config.yaml                        the config has a section `sweep:`
  trainer sweep config.yaml                        the same command continues it after a kill
  trainer sweep sweeps/digits sweep.trials=60      more trials of a sweep
  trainer sweep config.yaml sweep.parallel=4 --name wide
  trainer sweep config.yaml --on ray:auto          on a Ray cluster; --on slurm:PARTITION: as a job array
  trainer watch sweeps/digits                      the trials in the dashboard
  trainer report sweeps/digits                     the results as one web page
  trainer run sweeps/digits/best.yaml              train with the best values
"""
SHOWN = 5


def describe(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument("--name", help="name of the sweep: its folder is sweeps/NAME")
    parser.add_argument(
        "--on", default="local", metavar="PLACE",
        help="where trials train: local (the default), ray:ADDRESS or slurm:PARTITION, which share this folder",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print trials as they start and end, one JSON object each")


def execute(arguments: argparse.Namespace) -> int:
    import dataclasses
    import json
    import shlex
    import sys
    from pathlib import Path

    from trainer import TrainerError, configs
    from trainer.cli.batch_size import with_batch_size
    from trainer.cli.exit_codes import INTERRUPTED
    from trainer.cli.file_checks import Surroundings
    from trainer.cli.prepare import default_name, split_words
    from trainer.rundir import run_name
    from trainer.rundir.sweeps import SWEEPS, SweepPaths, is_sweep

    target, overrides = split_words(arguments.words, resuming=False)
    assert target is not None
    continued = SweepPaths(Path(target)) if is_sweep(Path(target)) else None
    if continued is not None and arguments.name:
        raise TrainerError("a continued sweep keeps its name", hint="Remove --name.")
    source = target if continued is None else str(continued.config.absolute())
    loaded = configs.load(source, overrides, rules=[Surroundings().problems])
    if loaded.config.sweep is None:
        raise TrainerError(
            "the config has no section `sweep:`", where=target,
            expected="sweep: {parameters: {optimizer.learning_rate: {low: 1e-4, high: 0.1, log: true}}, trials: 20}",
        )  # fmt: skip
    from trainer.cli.executors import executor_named
    from trainer.cli.sweep.running import run_sweep, take_up

    name = arguments.name or loaded.config.name or default_name(loaded.task)
    paths = continued or SweepPaths(Path(SWEEPS) / run_name(name))

    def tell(trial: Trial, is_best: bool) -> None:
        if arguments.json:
            print(json.dumps({**dataclasses.asdict(trial), "is_best": is_best}), flush=True)
        else:
            print(line_of(trial, is_best=is_best), flush=True)

    with paths.locked():
        earlier = configs.load_resolved(paths.config).config if paths.config.is_file() else None
        loaded = with_batch_size(loaded, None if earlier is None else earlier.data.items_per_batch)
        sweep = take_up(paths, loaded)
        try:
            with executor_named(
                arguments.on, paths.root / ".orders", runs=sweep.section.parallel, threads=loaded.config.threads
            ) as executor:
                state = run_sweep(sweep, executor, tell=tell)
        except KeyboardInterrupt:
            root = shlex.quote(str(paths.root))
            print(f"interrupted; `trainer sweep {root}` resumes the running trials and continues", file=sys.stderr)
            return INTERRUPTED
    if not arguments.json:
        print("\n".join([results(state), f"\ntrainer run {shlex.quote(str(paths.best))}  trains with the best values"]))
    return 0


def line_of(trial: Trial, *, is_best: bool) -> str:
    """One line about a trial that has started or ended."""
    from trainer.cli.sweep.trial import words_of
    from trainer.tui.numbers import number

    value = "" if trial.value is None else f" {number(trial.value)}"
    reason = f": {trial.reason.splitlines()[0]}" if trial.reason else ""
    best = ", the best so far" if is_best else ""
    return f"trial {trial.number} {trial.state}{value}{best}{reason}  {' '.join(words_of(trial.parameters))}"


def results(state: SweepState) -> str:
    """The best trials as a table."""
    from trainer.cli.table import table
    from trainer.tui.numbers import number

    names = list(dict.fromkeys(name for trial in state.trials for name in trial.parameters))
    rows = [
        [str(trial.number), number(trial.value or 0.0), *(_shown(trial.parameters.get(name)) for name in names)]
        for trial in state.ranked[:SHOWN]
    ]
    counted = f"{state.count('complete')} complete, {state.count('pruned')} pruned, {state.count('failed')} failed"
    header = ["trial", state.metric, *names]
    return f"{counted}\n{table(header, rows, right=[True] * len(header), width=None)}"


def _shown(value: object) -> str:
    from trainer.tui.numbers import number

    return number(value) if isinstance(value, float) else str(value)
