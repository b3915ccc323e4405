"""Runs the public test suite of the Python array API standard (data-apis/array-api-tests) on the engine.

    python benchmarks/array_api.py SUITE_FOLDER [--examples 100] [--files test_fft.py …] [--json]

Runs the suite for `trainer.engine` and then for `array_api_strict`, the standard's reference (install it and the
suite's `requirements.txt` from PyPI), with the same number of examples. Prints how many tests pass, fail and are
skipped. The exit code is 1 if a test passes for array_api_strict but not for the engine, and 3 if either run ended
before its tests did.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import ROOT

MODULES = ("trainer.engine", "array_api_strict")
_STATES = {"failure": "failed", "error": "failed", "skipped": "skipped"}


@dataclass(frozen=True)
class Case:
    """One test's state, and the last line of its error."""

    state: str
    reason: str


_MISSING = Case("missing", "not collected")


def run_suite(suite: Path, module: str, examples: int, files: list[str]) -> dict[str, Case]:
    """The cases of the suite by name, for the array namespace `module`."""
    paths = [str(Path("array_api_tests") / name) for name in files] or ["array_api_tests"]
    options = [f"--max-examples={examples}", "--disable-deadline"]
    return run_pytest([*paths, *options], suite, {"ARRAY_API_TESTS_MODULE": module})


def run_pytest(
    arguments: list[str], folder: Path, environment: dict[str, str], python: str = sys.executable
) -> dict[str, Case]:
    """The cases that pytest runs in `folder` with `arguments`, by name. This checkout's packages come first.

    Prints the end of pytest's output and exits with 3 if pytest did not run all tests or found none.
    """
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.xml"
        command = [python, "-m", "pytest", *arguments, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command += [f"--junitxml={report}", "--tb=line"]
        paths = (str(ROOT), str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", ""))
        variables = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        output = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        if output.returncode not in (0, 1):  # 1: some tests failed
            sys.stderr.write(output.stdout[-4000:] + output.stderr[-4000:])
            raise SystemExit(3)
        return dict(map(_case, ElementTree.parse(report).iter("testcase")))


def _case(element: ElementTree.Element) -> tuple[str, Case]:
    name = f"{element.get('classname', '')}::{element.get('name')}"
    for child in element:
        if child.tag in _STATES:
            lines = [line for line in (child.get("message") or child.text or "").splitlines() if line.strip()]
            return name, Case(_STATES[child.tag], lines[0][:300] if lines else "")
    return name, Case("passed", "")


def states(cases: dict[str, Case]) -> Counter[str]:
    """Returns the number of cases in each state."""
    return Counter(case.state for case in cases.values())


def summary(cases: dict[str, Case]) -> str:
    """Returns the number of cases in each state, as text."""
    counts = states(cases)
    return ", ".join(f"{counts[state]} {state}" for state in ("passed", "failed", "skipped")) + f" of {counts.total()}"


def main() -> int:
    """Runs both and prints the counts; returns 1 if array_api_strict passes a test that the engine does not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "suite", type=Path, help="folder of a checkout of data-apis/array-api-tests, with its submodule"
    )
    parser.add_argument("--examples", type=int, default=100, help="number of examples for each property")
    parser.add_argument("--files", nargs="+", default=[], help="test files of the suite (default: all)")
    parser.add_argument("--json", action="store_true", help="print the counts and every failure as JSON")
    given = parser.parse_args()
    ours, strict = (run_suite(given.suite, module, given.examples, given.files) for module in MODULES)
    passed = sorted(name for name, case in strict.items() if case.state == "passed")
    missed = [name for name in passed if ours.get(name, _MISSING).state != "passed"]
    if given.json:
        counted = {module: states(cases) for module, cases in zip(MODULES, (ours, strict), strict=True)}
        found = {name: asdict(case) for name, case in ours.items() if case.state != "passed"}
        print(json.dumps({"counts": counted, "missed": missed, "not passed": found}, indent=1))
        return int(bool(missed))
    for module, cases in zip(MODULES, (ours, strict), strict=True):
        print(f"{module}: {summary(cases)}")
    print(f"passed only by array_api_strict: {len(missed)}")
    for name in missed:
        print(f"  {name}: {ours.get(name, _MISSING).reason}")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
