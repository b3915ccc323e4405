"""Records figures, in one append-only file per benchmark: results/figures/NAME.jsonl (`ledger.py`).

A line has a figure's result, the command that measures it, the date, the commit, the machine, and the versions on both
sides. `published.py` generates docs/results.md from the newest line of each figure and processor.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import dependencies
import ledger
import provenance
from harness import Result

FIGURES = Path(__file__).parent / "results" / "figures"
PEERS = ("torch", "torchvision", "timm", "numpy", "scikit-learn", "mpi4py")
"""Distributions whose versions in the peer's environment are recorded, if it has them."""
_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try: found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError: pass
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Recording:
    """The file of a benchmark, and the origin of a figure that is measured now."""

    file: Path
    origin: Mapping[str, Any]

    def known(self) -> dict[str, Result]:
        """Returns decided results (`ok` is not None) of the same code on the same machine, by name."""
        same = ("machine", "versions", "peer_versions")
        lines = [line for line in ledger.read(self.file) if all(line[key] == self.origin[key] for key in same)
                 and not dependencies.changed(self.file.stem, line["revision"])]  # fmt: skip
        names = [field.name for field in fields(Result)]
        return {
            line["name"]: Result(**{name: line[name] for name in names}) for line in lines if line["ok"] is not None
        }

    def add(self, result: Result) -> None:
        """Appends a result, unless its peer is missing: a later call measures it with the peer."""
        if not result.lacks_peer:
            command = f"{self.origin['command']} {result.name}"
            ledger.append(self.file, {**self.origin, "command": command, **vars(result)})


def recording(benchmark: str, peer_python: str | None, folder: Path = FIGURES) -> Recording:
    """Returns the recording of a benchmark, by its name.

    Raises:
        SystemExit: the checkout has changes, so no commit identifies the measured code.
    """
    if (revision := provenance.revision()).endswith("+"):
        raise SystemExit("the checkout has changes in trainer or benchmarks: commit them before figures are recorded")
    return Recording(
        folder / f"{benchmark}.jsonl",
        {
            "command": f"python benchmarks/{benchmark}.py{' --peer-python PYTHON' if peer_python else ''}",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "revision": revision,
            "machine": provenance.machine(),
            "versions": provenance.versions(),
            "peer_versions": {**(_versions_of(peer_python) if peer_python else {}), **_older_version()},
        },
    )


def newest(folder: Path = FIGURES) -> dict[str, dict[str, ledger.Line]]:
    """Returns the newest line by benchmark and figure."""
    return {file.stem: {line["name"]: line for line in ledger.read(file)} for file in sorted(folder.glob("*.jsonl"))}


def newest_of_machines(folder: Path = FIGURES) -> dict[str, list[ledger.Line]]:
    """Returns, by benchmark, the newest line of each figure on each kind of processor."""
    return {
        file.stem: [*{(line["name"], line["machine"]["features"]): line for line in ledger.read(file)}.values()]
        for file in sorted(folder.glob("*.jsonl"))
    }


def _older_version() -> dict[str, str]:
    """Returns the commit of the older checkout that a command line compares with, if any."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--checkout", type=Path)
    checkout = parser.parse_known_args()[0].checkout
    if checkout is None:
        return {}
    command = ("git", "-C", str(checkout), "log", "-1", "--format=%h")
    return {"trainer": subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()}


def _versions_of(python: str, distributions: Sequence[str] = PEERS) -> dict[str, str]:
    command = (python, "-c", _VERSIONS, *distributions)
    return dict(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))
