"""Tests what a run survives: kills in every phase, damage to its checkpoints, and damaged or hostile input.

python benchmarks/faults.py [NAME …] [--json] [--count N] [--seed S] [--continue FILE]

Each figure counts the cases that pass. `--count` limits the number of cases of each kind; `--seed` selects them. The
kills of ranks take half an hour: `--continue` records each in a file, and skips those that the file has.
"""

from __future__ import annotations

import argparse
import collections
import functools
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import Figure, run_figures

sys.path.insert(0, str(Path(__file__).parent / "workloads"))

from damaged import Damage
from foreign_models import ForeignModels
from hostile import Hostile
from killed import AIMS, DIGITS, Killed, Kills
from killed_ranks import KilledRanks, series
from mutated import Mutants
from scene_runs import detection

OPTIONS = argparse.ArgumentParser(add_help=False)
OPTIONS.add_argument("--count", type=int, help="how many of each kind (default: each figure's own)")
OPTIONS.add_argument("--seed", type=int, default=0, help="decides what is done to what")
OPTIONS.add_argument("--continue", dest="known", type=Path, metavar="FILE", help="kills of ranks, noted one by one")
CHOSEN, REST = OPTIONS.parse_known_args()
RUNS, SCENE_RUNS, RANKS, DAMAGES, MUTANTS, MUTANTS_BY_COMMAND, FILES, MODELS = (
    most if CHOSEN.count is None else min(most, CHOSEN.count) for most in (100, 100, 200, 1000, 9500, 500, 1000, 1000)
)
FEWEST = 2
"""Minimum number of kills in each phase."""


@functools.cache
def killed_runs(of: str = "digits") -> list[Killed]:
    """Kills and resumes runs of a recipe, reports each on standard error, and returns them."""
    count = RUNS if of == "digits" else SCENE_RUNS
    with tempfile.TemporaryDirectory(prefix="trainer-faults-") as folder:
        workload = DIGITS if of == "digits" else detection(Path(folder) / "data", CHOSEN.seed)
        kills, runs = Kills(Path(folder), CHOSEN.seed, workload), list[Killed]()
        for number in range(1, count + 1):
            runs.append(kills.run())
            if runs[-1].difference:
                shutil.copytree(runs[-1].folder, Path(tempfile.mkdtemp()) / "killed")
            said = runs[-1].difference or "equal"
            print(f"{number}/{count} {of} killed in {', '.join(runs[-1].phases)}: {said}", file=sys.stderr, flush=True)
    hits = histogram(runs)
    print("killed in  " + "  ".join(f"{name}: {hits[name]}" for name in AIMS), file=sys.stderr, flush=True)
    return runs


def histogram(runs: list[Killed]) -> collections.Counter[str]:
    """Returns the number of kills in each phase."""
    return collections.Counter(name for run in runs for name in run.phases)


def equal_runs() -> float:
    return sum(not run.difference for run in killed_runs())


def equal_scene_runs() -> float:
    return sum(not run.difference for run in killed_runs("detection"))


def well_lost_ranks() -> float:
    """How many of RANKS kills of a rank end training in time, and resume to the bits of an uninterrupted run."""
    with tempfile.TemporaryDirectory(prefix="trainer-faults-") as folder:
        found = list[bool]()
        for kill in series(KilledRanks(Path(folder), CHOSEN.seed), RANKS, CHOSEN.known):
            found.append(not kill.difference)
            print(
                f"{len(found)}/{RANKS} of {kill.processes} ranks one killed in {kill.phase}, ended after "
                f"{kill.seconds:.1f} s, training {kill.training}: {kill.difference or 'equal'}",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        return sum(found)


def fewest_in_a_phase() -> float:
    hits = histogram(killed_runs())
    return min(hits[name] for name in AIMS)


def noticed_damages() -> float:
    """How many of DAMAGES are detected and named, with the previous checkpoint restored."""
    with tempfile.TemporaryDirectory(prefix="trainer-faults-") as folder:
        return DAMAGES - _problems(Damage(Path(folder), CHOSEN.seed).once, DAMAGES)


def well_taken_configs(count: int, *, by_command: bool) -> float:
    """How many of `count` changed configurations are correctly read or rejected, and in time."""
    with tempfile.TemporaryDirectory(prefix="trainer-faults-") as folder:
        mutants = Mutants(Path(folder), CHOSEN.seed)
        return count - _problems(lambda: mutants.once(by_command=by_command), count)


def well_taken_files() -> float:
    """How many of FILES damaged or hostile files are handled correctly."""
    with tempfile.TemporaryDirectory(prefix="trainer-faults-") as folder:
        return FILES - _problems(Hostile(Path(folder), CHOSEN.seed).once, FILES)


def well_taken_models() -> float:
    """How many of MODELS damaged, hostile or foreign files of exported models are handled correctly."""
    with tempfile.TemporaryDirectory(prefix="trainer-faults-") as folder:
        return MODELS - _problems(ForeignModels(Path(folder), CHOSEN.seed).once, MODELS)


def _problems(once: Callable[[], str], count: int) -> int:
    """Returns how many of `count` calls return a problem; prints each problem to standard error."""
    problems = [problem for problem in (once() for _ in range(count)) if problem]
    for problem in problems:
        print(ascii(problem), file=sys.stderr, flush=True)
    return len(problems)


def _count(name: str, ours: Callable[[], float], bar: int, unit: str) -> Figure:
    """Returns a figure that counts passed cases; the bar is their minimum."""
    return Figure(name, ours, bar=bar, better="higher", unit=unit, rounds=1, is_timing=False)


FIGURES = [
    _count("kills", equal_runs, RUNS, "runs"),
    _count("kills_in_a_phase", fewest_in_a_phase, FEWEST, "kills"),
    _count("kills_of_detection", equal_scene_runs, SCENE_RUNS, "runs"),
    _count("kills_of_ranks", well_lost_ranks, RANKS, "runs"),
    _count("damage", noticed_damages, DAMAGES, "found"),
    _count("configs", lambda: well_taken_configs(MUTANTS, by_command=False), MUTANTS, "configs"),
    _count(
        "configs_by_command",
        lambda: well_taken_configs(MUTANTS_BY_COMMAND, by_command=True),
        MUTANTS_BY_COMMAND,
        "configs",
    ),
    _count("hostile_files", well_taken_files, FILES, "files"),
    _count("exports", well_taken_models, MODELS, "files"),
]

if __name__ == "__main__":
    sys.exit(run_figures(FIGURES, REST))
