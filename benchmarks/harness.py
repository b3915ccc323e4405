"""Measures the figures of all benchmarks: in alternation with a peer, while watching the load of the machine.

A benchmark is a script that lists its figures:

    from harness import Figure, run_figures

    FIGURES = [Figure("mlp_step", ours=step_ms, peer=torch_step_ms, bar=1.0)]

    if __name__ == "__main__":
        raise SystemExit(run_figures(FIGURES))

Usage: `python benchmarks/mlp.py [name …] [--json] [--peer-python PATH] [--rounds N] [--record]`. `--record` appends the
results to results/figures/mlp.jsonl (`recording.py`) and skips figures that were already recorded with the same code
(`dependencies.py`) on the same machine.

How a figure is measured:

    round, repeated until enough rounds are undisturbed:
        ours, peer, ours, peer, …      for at least MINIMUM_ROUND_SECONDS; the value of each side is its median
        disturbed?                     other processes used more than 5 % of the machine: the round is repeated
                                       (unless the figure is not a timing)
    ratio    = median of the rounds' ratios; their quartiles are printed as the spread
    ok       = true if the ratio reaches the bar; null if undecided: too few undisturbed rounds, or a wide spread on
               both sides of the bar; false, without a ratio, if a round of ours measured NaN or infinity
    interval = 95 % confidence interval of the true median ratio; null below six rounds

The exit code is 1 if a bar is missed, else 4 if a peer is missing, else 3 if a figure is undecided, else 0. With
`--json`, standard output has only the figures; everything else that the measured code prints goes to standard error.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib.util
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from load import Watch

if TYPE_CHECKING:
    from recording import Recording

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # benchmarks run from a checkout, installed or not

DISTURBED_SHARE = 0.05
MINIMUM_ROUND_SECONDS = 0.5  # processor time is counted in steps of 10 ms: 2 % of this round
ATTEMPTS_PER_ROUND = 3
WIDE_SPREAD = 0.1
CONFIDENCE = 0.95
TINY = 1e-9  # replaces a measured 0 in a ratio, such as 0 bytes per second
MISSED, UNTOLD, NO_PEER = 1, 3, 4
"""Exit codes; 2 is argparse's."""


@dataclass(frozen=True)
class Figure:
    """A quantity to measure, and its bar.

    Args:
        name: name in the report.
        ours: measures once, after its own warm-up, and returns the value in `unit`.
        peer: measures the peer once; its argument is the peer's interpreter (the value of `--peer-python`). None if the
            figure has a fixed bound.
        bar: with a peer, the minimum ratio (1.0: as good as the peer); without one, the bound on `ours` in `unit`.
        better: direction that is better.
        unit: unit of `ours` and `peer`.
        needs_peer_python: False for a peer that needs no separate environment.
        rounds: number of undisturbed rounds to measure.
        is_timing: False for a value that other processes can't change (a size, an accuracy): every round counts.
        lacks: missing option that would name the peer; only ours is measured.
    """

    name: str
    ours: Callable[[], float]
    peer: Callable[[str], float] | None = None
    bar: float = 1.0
    better: Literal["lower", "higher"] = "lower"
    unit: str = "ms"
    needs_peer_python: bool = True
    rounds: int = 7
    is_timing: bool = True
    lacks: str = ""


@dataclass(frozen=True)
class Family:
    """Figures (or families) of one kind, each with its own bar; the geometric mean of their ratios must reach `bar`."""

    name: str
    figures: tuple[Figure | Family, ...]
    bar: float


@dataclass(frozen=True)
class Round:
    """One round's medians, and the share of the machine that other processes used during it."""

    ours: float
    peer: float | None
    disturbance: float


@dataclass(frozen=True)
class Result:
    """The result of a figure. A `ratio` above 1 beats the peer (or the bound); `ok` is None if undecided.

    If a round of ours measured NaN or infinity, the figure is not ok and has no ratio. `ratios` has one ratio per
    round that counts; `interval` is the confidence interval of their median.
    """

    name: str
    ours: float
    peer: float | None
    ratio: float | None
    bar: float
    ok: bool | None
    unit: str
    spread: tuple[float, float] | None
    interval: tuple[float, float] | None
    ratios: tuple[float, ...]
    rounds: int
    disturbed_rounds: int
    disturbance: float
    note: str
    lacks_peer: bool = False


def summarise(figure: Figure, rounds: Sequence[Round], *, peer_missing: bool = False) -> Result:
    """Summarizes the undisturbed rounds of a figure or, if there are too few, all rounds, with `ok` None."""
    clean = [item for item in rounds if _counts(figure, item)]
    enough = not figure.is_timing or len(clean) >= min(figure.rounds, max(3, figure.rounds // 2))
    used = clean if enough else rounds
    peers = [item.peer for item in used if item.peer is not None]
    broken = [item for item in rounds if not math.isfinite(item.ours)]
    broken_peers = [item for item in rounds if item.peer is not None and not math.isfinite(item.peer)]
    ratios = [ratio for item in used if (ratio := _ratio(figure, item)) is not None]
    if broken or broken_peers:
        ratios = []  # numbers that include NaN have no order, so no median
    ratio = statistics.median(ratios) if ratios else None
    spread = _quartiles(ratios) if ratios else None
    bar = figure.bar if figure.peer else 1.0
    ok: bool | None = None
    note = ""
    if broken:
        ok, note = False, f"{len(broken)} of {len(rounds)} rounds measured {broken[0].ours}"
    elif broken_peers:
        note = f"{len(broken_peers)} of {len(rounds)} rounds measured {broken_peers[0].peer} of the peer"
    elif ratio is None or spread is None:
        note = f"no peer: give {figure.lacks or '--peer-python'}" if peer_missing else "nothing to compare with"
    elif not enough:
        note = f"only {len(clean)} of {len(rounds)} rounds were undisturbed"
    elif spread[0] < bar <= spread[1] and (spread[1] - spread[0]) / ratio > WIDE_SPREAD:
        note = "the spread lies on both sides of the bar"
    else:
        ok = ratio >= bar
    return Result(
        name=figure.name,
        ours=broken[0].ours if broken else statistics.median(item.ours for item in used),
        peer=broken_peers[0].peer if broken_peers else statistics.median(peers) if peers else None,
        ratio=ratio,
        bar=figure.bar,
        ok=ok,
        unit=figure.unit,
        spread=spread,
        interval=_interval(ratios),
        ratios=tuple(ratios),
        rounds=len(used),
        disturbed_rounds=len(rounds) - len(clean),
        disturbance=statistics.median(item.disturbance for item in rounds),
        note=note,
        lacks_peer=peer_missing,
    )


def summarise_family(family: Family, results: Sequence[Result]) -> Result:
    """Summarizes the results of a family's figures. `spread` is the range of their ratios; `ratios` has the geometric
    mean of their first rounds, of their second rounds, and so on.

    `ok` is None if a figure has no ratio, and never True if a figure is undecided. It is False if a round of ours
    measured NaN or infinity.
    """
    broken = [result for result in results if result.ratio is None and result.ok is False]
    ratios = [result.ratio for result in results if result.ratio is not None]
    peers = [result.peer for result in results if result.peer is not None]
    complete = len(ratios) == len(results) > 0
    by_round = zip(*(result.ratios for result in results), strict=False) if complete else ()
    means = tuple(statistics.geometric_mean(row) for row in by_round)
    ratio = statistics.geometric_mean(ratios) if complete else None
    worst = min(results, key=lambda result: result.ratio or 0.0) if complete else None
    ok = False if broken else None if ratio is None else ratio >= family.bar
    if ok and any(result.ok is None for result in results):
        ok = None
    return Result(
        name=family.name,
        ours=broken[0].ours if broken else statistics.geometric_mean(result.ours for result in results),
        peer=statistics.geometric_mean(peers) if complete and len(peers) == len(results) else None,
        ratio=ratio,
        bar=family.bar,
        ok=ok,
        unit=results[0].unit,
        spread=(min(ratios), max(ratios)) if ratio is not None else None,
        interval=_interval(means),
        ratios=means,
        rounds=min(result.rounds for result in results),
        disturbed_rounds=sum(result.disturbed_rounds for result in results),
        disturbance=statistics.median(result.disturbance for result in results),
        note=f"geometric mean of {len(results)}, worst {worst.name}"
        if worst
        else f"{broken[0].name}: {broken[0].note}"
        if broken
        else "not every figure has a peer",
        lacks_peer=any(result.lacks_peer for result in results),
    )


def measure(figure: Figure, peer_python: str | None, wanted_rounds: int | None = None) -> Result:
    """Runs rounds of a figure until enough are undisturbed or the attempts are used up."""
    peer = figure.peer if (peer_python or not figure.needs_peer_python) and not figure.lacks else None
    wanted = wanted_rounds or figure.rounds
    rounds: list[Round] = []
    clean = 0
    while clean < wanted and len(rounds) < wanted * ATTEMPTS_PER_ROUND:
        rounds.append(_round(figure.ours, peer, peer_python or sys.executable))
        clean += _counts(figure, rounds[-1])
    return summarise(figure, rounds, peer_missing=figure.peer is not None and peer is None)


def run_figures(figures: Sequence[Figure | Family], argv: Sequence[str] | None = None) -> int:
    """Runs the command line of a benchmark; returns the exit code.

    The name of a family selects all of its figures; their lines are printed before the family's.
    """
    known = [figure.name for figure in figures]
    parser = argparse.ArgumentParser(description="Measure figures and compare them with their bars.")
    parser.add_argument("names", nargs="*", help=f"figures to measure (default: all): {', '.join(known)}")
    parser.add_argument("--json", action="store_true", help="print each figure as a line of JSON")
    parser.add_argument("--peer-python", help="Python interpreter of an environment with the peers")
    parser.add_argument("--rounds", type=int, help="number of undisturbed rounds (default: set by each figure)")
    parser.add_argument(
        "--record", action="store_true",
        help="append to benchmarks/results/figures; skip figures recorded with the same code on the same machine",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    names = set(arguments.names)
    unknown = names - set(_names(figures))
    if unknown:
        parser.error(f"no such figure: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    measured: list[Result] = []
    kept = _recording(arguments.peer_python) if arguments.record else None
    known_results = kept.known() if kept else {}

    def run(figure: Figure | Family, *, is_wanted: bool) -> Result | None:
        is_wanted |= figure.name in names
        if isinstance(figure, Family):
            results = [result for part in figure.figures if (result := run(part, is_wanted=is_wanted))]
            result = summarise_family(figure, results) if is_wanted else None
            if kept and result:
                kept.add(result)
        else:
            result = known_results.get(figure.name) if is_wanted else None
            if is_wanted and result is None:
                with contextlib.redirect_stdout(sys.stderr if arguments.json else sys.stdout):
                    result = measure(figure, arguments.peer_python, arguments.rounds)
                if kept:
                    kept.add(result)
        if result:
            measured.append(result)
            print(as_json(vars(result)) if arguments.json else describe(result, figure), flush=True)
        return result

    for figure in figures:
        run(figure, is_wanted=not names)
    return exit_code((result.ok for result in measured), lacks_peer=any(result.lacks_peer for result in measured))


def _recording(peer_python: str | None) -> Recording:
    """Returns the recording for the results of the running benchmark."""
    from recording import recording  # imports this module

    return recording(Path(sys.argv[0]).stem, peer_python)


def exit_code(verdicts: Iterable[bool | None], *, lacks_peer: bool = False) -> int:
    """Returns the exit code for bars that are reached (True), missed (False) or undecided (None). A missing peer, which
    leaves a figure undecided, has its own exit code unless a bar is missed.
    """
    found = list(verdicts)
    if False in found:
        return MISSED
    return NO_PEER if lacks_peer else UNTOLD if None in found else 0


def require(**distributions: str) -> None:
    """Exits unless packages are installed that a plain installation lacks: module="distribution".

    Raises:
        SystemExit: a package is not installed.
    """
    missing = [name for module, name in distributions.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise SystemExit(f"this benchmark needs {', '.join(missing)}; install: pip install -e '.[dev]'")


def largest(values: Iterable[float]) -> float:
    """Returns the largest of one or more `values`; NaN if one is NaN, which `max` may ignore."""
    found = list(values)
    return math.nan if any(math.isnan(value) for value in found) else max(found)


def as_json(line: Mapping[str, Any]) -> str:
    """Returns `line` as JSON, with null for NaN and infinity, which JSON lacks."""
    return json.dumps(_finite(line), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _names(figures: Sequence[Figure | Family]) -> Iterator[str]:
    """Yields the names of figures and of families, including their members."""
    for figure in figures:
        yield figure.name
        yield from _names(figure.figures if isinstance(figure, Family) else ())


def describe(result: Result, figure: Figure | Family) -> str:
    """Returns a result as one line of readable text."""
    has_peer = isinstance(figure, Family) or figure.peer is not None
    word = {True: "ok", False: "MISSED", None: "can't tell"}[result.ok]
    parts = [f"{result.name:28} {word:10} {result.ours:10.4g} {result.unit}"]
    if has_peer:
        parts.append(f"peer {result.peer:.4g} {result.unit}" if result.peer is not None else "peer -")
    if result.ratio is not None and result.spread is not None:
        bar = f"bar {result.bar:g}" if has_peer else f"bound {result.bar:g} {result.unit}"
        parts.append(f"ratio {result.ratio:.3f} ({result.spread[0]:.3f} to {result.spread[1]:.3f}), {bar}")
    if result.interval is not None:
        parts.append(f"95 % interval {result.interval[0]:.3f} to {result.interval[1]:.3f}")
    parts.append(f"{result.rounds} rounds, others used {result.disturbance:.0%}")
    return "  ".join(parts + ([result.note] if result.note else []))


def command_seconds(command: Sequence[str], environment: dict[str, str] | None = None) -> float:
    """Returns the seconds from a command's start to its end; discards its output.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment or checkout_environment())
    return time.perf_counter() - start


def checkout_environment(**variables: str) -> dict[str, str]:
    """Returns this process's environment, with the checkout importable, for commands that a benchmark starts."""
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{known}" if known else str(ROOT), **variables}


class Companion:
    """A process that stays warm between rounds. It answers each request, a line (empty by default), with a number.

    It starts at the first call, so figures that are not measured cost nothing. With `rests`, it is stopped between
    requests: OpenMP threads that wait by spinning would take the processors from the other measurements.
    The script of the process:

        for _ in sys.stdin: print(measure_once(), flush=True)
    """

    def __init__(
        self,
        *command: str,
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
        rests: bool = False,
    ) -> None:
        self._command, self._folder, self._rests = command, folder, rests
        self._environment = environment or checkout_environment()
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, request: str = "") -> float:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._environment,
                cwd=self._folder,
            )  # fmt: skip
            if self._rests:
                atexit.register(self.close)  # a stopped process would outlive this one
        elif self._rests:
            self._process.send_signal(signal.SIGCONT)
        requests, answers = _pipes(self._process)
        requests.write(f"{request}\n")
        requests.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"{' '.join(self._command)} ended with {self._process.wait()}")
        if self._rests:
            self._process.send_signal(signal.SIGSTOP)
        if not math.isfinite(value := float(answer)):
            raise RuntimeError(f"{' '.join(self._command)} answered {value}")
        return value

    def close(self) -> None:
        """Ends the process; the next request starts another."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            for pipe in _pipes(self._process):
                pipe.close()
            self._process.wait()
            self._process = None


POLICIES = ("active", "passive")
"""How OpenMP threads wait: spinning or sleeping. The faster policy depends on the machine and the workload."""


class BestPolicy:
    """A peer that uses OpenMP, in one process per wait policy; the faster process counts."""

    def __init__(self, *command: str, **variables: str) -> None:
        self._companions = [
            Companion(*command, environment=checkout_environment(OMP_WAIT_POLICY=policy, **variables), rests=True)
            for policy in POLICIES
        ]

    def __call__(self, request: str) -> float:
        return min(companion(request) for companion in self._companions)

    def close(self) -> None:
        """Ends the processes."""
        for companion in self._companions:
            companion.close()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def _round(ours: Callable[[], float], peer: Callable[[str], float] | None, peer_python: str) -> Round:
    our_values: list[float] = []
    peer_values: list[float] = []
    watch = Watch()
    while not our_values or watch.seconds < MINIMUM_ROUND_SECONDS:
        our_values.append(ours())
        if peer is not None:
            peer_values.append(peer(peer_python))
    peers = statistics.median(peer_values) if peer_values else None
    return Round(statistics.median(our_values), peers, watch.disturbance)


def _counts(figure: Figure, item: Round) -> bool:
    return not figure.is_timing or item.disturbance <= DISTURBED_SHARE


def _ratio(figure: Figure, item: Round) -> float | None:
    reference = item.peer if figure.peer else figure.bar
    if reference is None:
        return None
    return reference / max(item.ours, TINY) if figure.better == "lower" else item.ours / reference


def _interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Returns a 95 % confidence interval of the median by order statistics, for any distribution; None below six."""
    ordered, tail, interval = sorted(values), 0.0, None
    for left_out in range(len(ordered) // 2):
        tail += math.comb(len(ordered), left_out) / 2 ** len(ordered)
        if 2 * tail > 1 - CONFIDENCE:
            break
        interval = ordered[left_out], ordered[-1 - left_out]
    return interval


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third
