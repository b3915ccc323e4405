"""What a run survives: kills in every phase, and damage to its checkpoints. The counts are of what came through.

python benchmarks/faults.py [kills kills_in_a_phase damage] [--json]
"""

from __future__ import annotations

import collections
import functools
import shutil
import sys
import tempfile
from pathlib import Path

from harness import Figure, run_figures

sys.path.insert(0, str(Path(__file__).parent / "workloads"))

from damaged import Damage
from killed import AIMS, Killed, Kills

RUNS, DAMAGES = 100, 1000
FEWEST = 2
"""How often each phase is to be hit at least."""


@functools.cache
def killed_runs() -> list[Killed]:
    """RUNS runs that were killed and resumed, each told of on standard error."""
    with tempfile.TemporaryDirectory(prefix="trainer-faults-") as folder:
        kills, runs = Kills(Path(folder)), list[Killed]()
        for number in range(1, RUNS + 1):
            runs.append(kills.run())
            if runs[-1].difference:
                shutil.copytree(Path(folder) / f"killed-{number}", Path(tempfile.mkdtemp()) / "killed")
            said = runs[-1].difference or "equal"
            print(f"{number}/{RUNS} killed in {', '.join(runs[-1].phases)}: {said}", file=sys.stderr, flush=True)
    hits = histogram(runs)
    print("killed in  " + "  ".join(f"{name}: {hits[name]}" for name in AIMS), file=sys.stderr, flush=True)
    return runs


def histogram(runs: list[Killed]) -> collections.Counter[str]:
    """How many kills were in each phase."""
    return collections.Counter(name for run in runs for name in run.phases)


def equal_runs() -> float:
    return sum(not run.difference for run in killed_runs())


def fewest_in_a_phase() -> float:
    hits = histogram(killed_runs())
    return min(hits[name] for name in AIMS)


def noticed_damages() -> float:
    """How many of DAMAGES were noticed and named, and had the checkpoint before taken up."""
    with tempfile.TemporaryDirectory(prefix="trainer-faults-") as folder:
        damage = Damage(Path(folder))
        problems = [problem for problem in (damage.once() for _ in range(DAMAGES)) if problem]
    for problem in problems:
        print(problem, file=sys.stderr, flush=True)
    return DAMAGES - len(problems)


FIGURES = [
    Figure("kills", equal_runs, bar=RUNS, better="higher", unit="runs", rounds=1, is_timing=False),
    Figure("kills_in_a_phase", fewest_in_a_phase, bar=FEWEST, better="higher", unit="kills", rounds=1, is_timing=False),
    Figure("damage", noticed_damages, bar=DAMAGES, better="higher", unit="found", rounds=1, is_timing=False),
]

if __name__ == "__main__":
    sys.exit(run_figures(FIGURES))
