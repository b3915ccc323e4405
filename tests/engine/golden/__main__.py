"""Writes, checks or prints the records of the listed programs: `python -m tests.engine.golden --check [NAME ...]`."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.engine.golden import record
from tests.engine.golden.listing import Listing, listing
from tests.engine.golden.programs import PROGRAMS


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 where `--check` finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.golden", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="record the named programs, or all, in golden.json")
    action.add_argument("--check", action="store_true", help="compare with golden.json; exit with 1 on a difference")
    action.add_argument("--dump", type=Path, metavar="DIR", help="write each listing and kernel as text below DIR")
    action.add_argument("--digests", action="store_true", help="print the digests of launches and kernels")
    parser.add_argument("--no-results", action="store_true", help="lower only; run no program")
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of programs; all if none is given")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}")
    names = chosen.names or list(PROGRAMS)
    has_results = not chosen.no_results and (chosen.write or chosen.check)
    kept = record.read() if record.GOLDEN.exists() else {}
    failures = 0
    for number, name in enumerate(names, 1):
        began = time.perf_counter()
        made = listing(PROGRAMS[name])
        found = record.lowered_record(made)
        lowered = time.perf_counter() - began
        if has_results:
            found["results"] = record.results_digest(PROGRAMS[name])
        spent = time.perf_counter() - began
        print(f"{number}/{len(names)} {name}: lowered in {lowered:.2f} s, {spent:.2f} s in all", file=sys.stderr)
        if chosen.write:
            kept[name] = {**kept.get(name, {}), **found}
        elif chosen.dump is not None:
            _dump(chosen.dump, name, made)
        elif chosen.digests:
            print(name, found["launches"], found["kernels"], flush=True)
        else:
            different = record.differences(kept.get(name), found)
            failures += bool(different)
            if different:
                print(f"{name}: {', '.join(different)}", flush=True)
    if chosen.write:
        record.write({name: kept[name] for name in PROGRAMS if name in kept})
    if chosen.check:
        print(f"{len(names) - failures} of {len(names)} programs are as recorded")
    return 1 if failures else 0


def _dump(folder: Path, name: str, made: Listing) -> None:
    """`<name>/launches.txt`, and a file for each kernel."""
    place = folder / re.sub(r"[^a-zA-Z0-9]+", "_", name)
    place.mkdir(parents=True, exist_ok=True)
    (place / "launches.txt").write_text(made.launches)
    for number, text in enumerate(made.kernels):
        (place / f"k{number}.ll").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
