"""Trains the gallery's recipes, records their test metrics and seconds, and compares them with the recipes' bars.

    python benchmarks/recipes.py digits clothes --seed 0            one run per recipe; appended to results/NAME.jsonl
    python benchmarks/recipes.py clothes --seed 1 threads=1         the same metrics on one thread, not timed; appended
    python benchmarks/recipes.py lsgan --beside PYTHON --seed 0     one run and the same steps in PyTorch; appended
    python benchmarks/recipes.py vit --beside PYTHON --seed 0       one run and PyTorch for the same time; appended
    python benchmarks/recipes.py digits --fingerprint               digest of a short run, to compare bits; appended
    python benchmarks/recipes.py digits --same-as ../before         check that a reworded config is the same; appended
    python benchmarks/recipes.py digits --short                     smoke test of a few steps; not appended
    python benchmarks/recipes.py clothes --estimate                 total time, estimated from a few epochs; appended
    python benchmarks/recipes.py clothes --picture                  one run; its last samples become the picture
    python benchmarks/recipes.py --curves                           draws the curve.png of each recipe with results
    python benchmarks/recipes.py --table                            recorded results and bars, one line per recipe

Each run is a separate command with an empty kernel cache. Its end event has the metrics of the test split, computed
with the weights that `checkpoint.best` chose on the validation split. To resume an interrupted run from its folder in
`runs/recipes`, repeat the command; if only PyTorch's part is missing, the finished run is not repeated. Twice a minute,
standard error reports the progress of the run and the remaining time of the whole command.

A line of results has the wall time of the command in `seconds`: null if other processes used more than 5 % of the
machine, if `threads=` or another option was set, or if the run was interrupted. A line also has its provenance
(`provenance.py`): digests of the lowered programs, the learner, the recipe and its parts, the configuration and the
data; versions; the machine; and the digest of a short training (`--fingerprint`). Lines are only appended; a later line
of the same seed supersedes an earlier one. `ledger.py` detects lines that were edited or removed.

`--table` uses a line's metrics if its digests and versions equal those of the checkout, or if a fingerprint run of the
checkout gave the same bits. It uses a line's seconds only if digests and versions are equal. Other lines are listed as
stale, with the differences. Programs are lowered for the machine of each line, so the table is the same on every
machine. A recipe reaches its bars if the means over all of its seeds do and its slowest run is within the time limit.
The exit code is 1 if a bar is missed, else 3 if a recipe is undecided, else 0.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

import ledger
import provenance
from baselines import against_forecasts, against_n_grams
from harness import DISTURBED_SHARE, ROOT, as_json, exit_code, largest
from load import Watch
from recipe_runs import Training, progress, remaining, train

from trainer.rundir import MetricEvent, Run, SampleEvent, read_events

RESULTS = Path(__file__).parent / "results"
WORK = ROOT / "runs" / "recipes"
UNSHOWN = ("after", "curve", "digests", "id", "machine", "versions")
SHORT = ("train.epochs=null", "train.steps=12", "train.log_every_steps=2", "schedule.warmup_steps=2")
NEUTRAL = ("threads=", "data.workers=", "data.worker_kind=", "autotune.mode=")  # options that change no bit of a result


@dataclass(frozen=True)
class Bar:
    """Bounds on a metric of the end event, as a mean over seeds.

    Args:
        least: lower bound; most: upper bound.
        by_peer: the bounds apply to our mean divided by PyTorch's.
        gates: whether the bar decides the recipe's verdict. Other bars are only reported.
        note: origin of a bar that does not gate.
    """

    metric: str
    least: float | None = None
    most: float | None = None
    by_peer: bool = False
    gates: bool = True
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.metric} by PyTorch's" if self.by_peer else self.metric

    def is_reached(self, value: float) -> bool:
        """Returns whether a value is within the bounds; NaN never is."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def describe(self, value: float) -> str:
        """Returns a text with the value, the bounds and the origin of the bar."""
        bounds = [
            f"at {word} {bound:g}" for word, bound in (("least", self.least), ("most", self.most)) if bound is not None
        ]
        return f"{self.name} {value:.4g}, bar {' and '.join(bounds)}{f' ({self.note})' if self.note else ''}"


@dataclass(frozen=True)
class Row:
    """A recipe's bars.

    Args:
        seconds: maximum wall time of the whole command on two cores.
        curve: validation metric that is plotted over the epochs.
        bars: bars of the metrics.
        seeds: number of seeds that a verdict needs.
        by_minutes: `--beside` trains in PyTorch for the wall time of our command (`recipe_minutes.py`) instead of for
            the same steps on the same batches (`recipe_parity.py`). Such a pair counts if the machine was undisturbed.
        short: overrides for a run of a few steps.
        loss: training metric that decreases even within a short run.
        further: computes metrics of a run in addition to those of its end event.
    """

    seconds: float
    curve: str
    bars: tuple[Bar, ...]
    seeds: int = 3
    by_minutes: bool = False
    short: tuple[str, ...] = SHORT
    loss: str = "train/loss"
    further: Callable[[Run], Mapping[str, float]] = lambda run: {}


def frechet_by_its_first(run: Run) -> dict[str, float]:
    """Returns the Fréchet distance on the validation split after the last epoch, and the largest in the second half of
    the run, both relative to the first distance.

    A result is NaN, which reaches no bar, if one of its distances is NaN or the first distance is not finite.
    """
    values = run.metrics["valid/ema/frechet"].value
    first, late = values[0] if isfinite(values[0]) else nan, values[len(values) // 2 :]
    return {"frechet_by_first": values[-1] / first, "late_frechet_by_first": largest(late) / first}


_OF_TOKENS = (*SHORT, "data.batch_size=8", "data.reader.length=33", "optimizer.learning_rate=0.01")

ROWS = {
    "adding": Row(
        300,
        "valid/loss",
        (Bar("test/loss", most=0.01),),
        short=("train.epochs=null", "train.steps=80", "train.log_every_steps=10", "options.length=10"),
    ),
    "forecast": Row(
        120,
        "valid/ema/mean_absolute_error",
        (Bar("error_by_naive", most=1.0), Bar("error_by_autoregressive", most=1.0)),
        further=against_forecasts,
    ),
    "names": Row(240, "valid/ema/f1", (Bar("f1_above_n_grams", least=0.01),), further=against_n_grams),
    "shakespeare": Row(
        600,
        "valid/loss",
        (Bar("test/loss", most=1.55), Bar("test/loss", most=1.0, by_peer=True)),
        by_minutes=True,
        short=(*_OF_TOKENS, "options.units=32", "options.shown=20"),
    ),
    "transformer": Row(
        600,
        "valid/loss",
        (Bar("test/loss", most=1.62), Bar("test/loss", most=1.0, by_peer=True)),
        by_minutes=True,
        short=(*_OF_TOKENS, "options.width=24", "options.depth=1", "options.context=64", "options.shown=20"),
    ),
    "vit": Row(
        900,
        "valid/ema/accuracy",
        (Bar("test/ema/accuracy", least=1.0, by_peer=True),),
        seeds=2,
        by_minutes=True,
        short=(*SHORT, "options.width=32", "options.depth=1"),
    ),
    "clothes": Row(
        900, "valid/ema/accuracy", (Bar("test/ema/accuracy", least=0.74),), short=(*SHORT, "options.width=8")
    ),
    "detection": Row(
        900,
        "valid/ema/coco/AP",
        (Bar("test/ema/coco/AP50", least=0.86), Bar("test/ema/coco/AP", least=0.54)),
        short=(*SHORT, "options.width=16", "options.pyramid_channels=16", "options.head_depth=1"),
    ),
    "digits": Row(60, "valid/accuracy", (Bar("test/accuracy", least=0.99),)),
    "lsgan": Row(
        900,
        "valid/ema/frechet",
        (
            Bar("test/ema/frechet", most=1.05, by_peer=True),
            *(
                Bar(
                    name,
                    most=0.5,
                    gates=False,
                    note="of the validation split, relative to the first epoch, which is noise",
                )
                for name in ("frechet_by_first", "late_frechet_by_first")
            ),
        ),
        short=("train.epochs=null", "train.steps=64", "train.log_every_steps=32", "options.filters=8"),
        loss="train/discriminator_loss",
        further=frechet_by_its_first,
    ),
    "pix2pix": Row(
        1200,
        "valid/ema/l1",
        (
            Bar("test/ema/l1", least=0.98, most=1.02, by_peer=True),
            Bar("test/ema/ssim", least=0.98, most=1.02, by_peer=True),
            Bar("test/ema/ssim", least=0.276, gates=False, note="original"),
            Bar("test/ema/l1", most=0.315, gates=False, note="original"),
            Bar("test/ema/ssim", least=0.27, gates=False, note="lowered after seed 0 had missed the original"),
            Bar("test/ema/l1", most=0.32, gates=False, note="loosened along with it"),
        ),
        short=("train.epochs=null", "train.steps=24", "train.log_every_steps=8"),
    ),
    "nuclei": Row(
        1200,
        "valid/ema/objects/AP",
        (
            Bar("test/ema/iou", least=0.88),
            Bar("test/ema/objects/AP", least=0.45),
            Bar("test/ema/objects/AP50", least=0.75),
            *(
                Bar(metric, least=least, gates=False, note="original, of the weights without averaging")
                for metric, least in (("test/iou", 0.88), ("test/objects/AP", 0.45), ("test/objects/AP50", 0.75))
            ),
        ),
        short=(
            *SHORT,
            "options.widths=[8, 12]",
            "options.flips=false",
            "options.rare=1",
            "options.center_threshold=0.6",
        ),
    ),
    "segmentation": Row(
        1200,
        "valid/ema/mean_iou",
        (Bar("test/ema/mean_iou", least=0.60),),
        short=(*SHORT, "options.widths=[8, 12]", "options.flips=false", "data.batch_size=2"),
    ),
}


def result(
    name: str, seed: int, training: Training, overrides: Sequence[str], origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns a line of results/NAME.jsonl."""
    row = ROWS[name]
    metrics = {key: value for key, value in training.end.metrics.items() if key.startswith("test")}
    metrics |= row.further(training.run)
    is_timed = training.seconds is not None and training.disturbance <= DISTURBED_SHARE and not overrides
    return {
        **origin,
        "seed": seed,
        "seconds": round(training.seconds, 1) if is_timed and training.seconds is not None else None,
        "disturbance": round(training.disturbance, 3),
        "steps": training.end.step,
        "metrics": {key: round(value, 6) for key, value in metrics.items()},
        "curve": curve(training.run, row.curve),
    }


def verdict(row: Row, values: Mapping[str, float], seconds: float | None) -> tuple[bool | None, list[str]]:
    """Returns whether metrics (by name of the bar) and seconds reach a recipe's bars, and texts about missed bars.

    The verdict is None if no gating bar is missed, but one has no value or no run was timed.
    """
    told = [(bar, values[bar.name]) for bar in row.bars if bar.name in values]
    missed = [bar.describe(value) for bar, value in told if not bar.is_reached(value)]
    if seconds is not None and seconds > row.seconds:
        missed.append(f"seconds {seconds:.1f}, bar at most {row.seconds:g}")
    if any(bar.gates and not bar.is_reached(value) for bar, value in told) or (seconds or 0) > row.seconds:
        return False, missed
    is_told = seconds is not None and all(bar.name in values for bar in row.bars if bar.gates)
    return (True if is_told else None), missed


def curve(run: Run, metric: str) -> list[tuple[float, float]]:
    """Returns (epoch, value) of a metric, such as "valid/accuracy", at each validation."""
    series = run.metrics[metric]
    return [(round(epoch, 3), round(value, 6)) for epoch, value in zip(series.epoch, series.value, strict=True)]


def estimate(name: str, folder: Path) -> dict[str, Any]:
    """Estimates the seconds of a whole run on this machine from a run that ends after the second validation.

    The time from the first to the second validation is extrapolated to the remaining epochs.
    """
    from trainer.configs import load

    config = load(name).config
    epochs, every = config.train.epochs, config.validate.every_epochs or 1
    assert epochs is not None
    origin = provenance.origin(name)
    training = train(name, (f"train.epochs={2 * every}",), folder)
    assert training.seconds is not None
    records = list(read_events(training.run.paths.events))
    ends = [
        record.since_start
        for record in records
        if isinstance(record.event, MetricEvent) and record.event.split == "valid"
    ]
    epoch = (ends[1] - ends[0]) / every
    seconds = training.seconds + (epochs - 2 * every) * epoch
    return {
        **origin,
        "estimated_seconds": round(seconds, 1),
        "epoch_seconds": round(epoch, 2),
        "disturbance": round(training.disturbance, 3),
        "ok": seconds <= ROWS[name].seconds if training.disturbance <= DISTURBED_SHARE else None,
    }


def file_of(name: str) -> Path:
    """The file of a recipe's results."""
    return RESULTS / f"{name}.jsonl"


def recorded(name: str) -> list[dict[str, Any]]:
    """Returns the lines of results/NAME.jsonl with the recipe's current configuration, including stale ones.

    Lines of an earlier configuration count if a later line (`--same-as`) records that it is equivalent.
    """
    lines = ledger.read(file_of(name))
    same = {provenance.configuration(name)}
    for line in reversed(lines):
        if "same_as" in line and _configuration_of(line) in same:
            same.add(line["same_as"])
    return [line for line in lines if any(one.startswith(_configuration_of(line)) for one in same)]


def _configuration_of(line: Mapping[str, Any]) -> str:
    """Returns the digest of a line's configuration, which is shorter in lines without other digests."""
    return str(line["digests"]["configuration"] if "digests" in line else line["configuration"])


def latest(lines: Iterable[Mapping[str, Any]], kind: str = "metrics") -> list[Mapping[str, Any]]:
    """Returns the last line of each seed in which the field `kind` is not null."""
    return list({line["seed"]: line for line in lines if "seed" in line and line.get(kind) is not None}.values())


def results(name: str) -> list[Mapping[str, Any]]:
    """Returns the latest run of each seed of a recipe, including stale ones."""
    return latest(recorded(name))


def known_seconds(name: str) -> float | None:
    """Returns the seconds of the slowest of the latest timed runs, else the latest estimate, else None."""
    timed = [line["seconds"] for line in latest(recorded(name), "seconds")]
    estimates = [line["estimated_seconds"] for line in recorded(name) if "estimated_seconds" in line]
    return max(timed) if timed else (estimates or [None])[-1]


def means(row: Row, runs: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the mean over seeds for each measured bar, by name of the bar: of runs, or of pairs with PyTorch."""
    found: dict[str, float] = {}
    for bar in row.bars:
        if bar.by_peer and pairs:
            found[bar.name] = mean(pairs, "ours", bar.metric) / mean(pairs, "peer", bar.metric)
        elif not bar.by_peer and runs:
            found[bar.name] = mean(runs, "metrics", bar.metric)
    return found


def mean(lines: Sequence[Mapping[str, Any]], kind: str, key: str) -> float:
    """Returns the mean of a metric; NaN if a line lacks it or has null, which represents NaN and infinity in JSON."""
    values = [nan if (value := line[kind].get(key)) is None else float(value) for line in lines]
    return sum(values) / len(values)


def table(names: Iterable[str] = ROWS) -> Iterable[dict[str, Any]]:
    """Yields the standing of each recipe: its current results compared with its bars, and its stale results."""
    for name in names:
        lines = recorded(name)
        yield standing(name, lines, provenance.now(name, lines))


def standing(name: str, lines: Sequence[Mapping[str, Any]], now: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the standing of a recipe in the current checkout, from its lines of results."""
    row = ROWS[name]
    counted = {id(line) for line in lines if not provenance.quality_differences(line, now, lines)}
    runs, pairs = (latest([line for line in lines if id(line) in counted], kind) for kind in ("metrics", "peer"))
    runs_timed = latest([line for line in lines if id(line) in counted], "seconds")
    timed = [line for line in runs_timed if not provenance.differences(line, now)]
    enough = {kind: found if len(found) >= row.seeds else [] for kind, found in (("runs", runs), ("pairs", pairs))}
    values = means(row, enough["runs"], enough["pairs"])
    seconds = max((line["seconds"] for line in timed), default=None)
    ok, missed = verdict(row, values, seconds)
    before = means(row, latest(lines), latest(lines, "peer"))
    unknown = {bar: value for bar, value in before.items() if bar not in values}
    missed += [f"{bar}, stale" for bar in verdict(row, unknown, None)[1]]
    stale = [
        f"{kind} of seed {line['seed']} at {line['revision']}: {', '.join(differing)}"
        for kind, found in (("run", latest(lines)), ("pair", latest(lines, "peer")))
        for line in found
        if (differing := provenance.quality_differences(line, now, lines))
    ] + [
        f"seconds of seed {line['seed']} at {line['revision']}: {', '.join(differing)}"
        for line in runs_timed
        if (differing := provenance.differences(line, now))
    ]
    told: dict[str, Any] = {"recipe": name, "seeds": f"{len(runs)} of {row.seeds}"}
    if any(bar.by_peer for bar in row.bars):
        told["pairs"] = f"{len(pairs)} of {row.seeds}"
    return {**told, "means": values, "seconds": seconds, "missed": missed, "stale": stale, "ok": ok}


def keep_picture(name: str, run: Run) -> None:
    """Saves the samples of the run's last validation as the recipe's picture, in rows that form about a square."""
    from recipe_pictures import grid

    samples = [record.event for record in read_events(run.paths.events)]
    files = [(event.step, event.file) for event in samples if isinstance(event, SampleEvent)]
    last = [run.paths.root / file for step, file in files if step == files[-1][0]]
    palette = grid(last).quantize(256)  # a third of the bytes
    palette.save(ROOT / "trainer" / "recipes" / name / f"{name}.png", optimize=True)


def keep_curve(name: str) -> None:
    """Draws the curves of a recipe's results as `curve.png` in its folder."""
    from recipe_pictures import curves

    lines = {
        f"seed {line['seed']}": [point for point in line["curve"] if point[1] is not None] for line in results(name)
    }
    curves(lines, ROWS[name].curve).save(ROOT / "trainer" / "recipes" / name / "curve.png", optimize=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train recipes and compare their results with their bars.")
    parser.add_argument("words", nargs="*", metavar="NAME | threads=N", help=f"default: all of {', '.join(ROWS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print each line as JSON, as it is appended")
    parser.add_argument("--short", action="store_true", help="train for a few steps; appends nothing")
    parser.add_argument("--estimate", action="store_true", help="estimate the total time from a few epochs; appended")
    parser.add_argument("--fingerprint", action="store_true", help="compute the digest of a short training; appended")
    parser.add_argument(
        "--same-as", type=Path, metavar="CHECKOUT", help="check that CHECKOUT's config gives equal bits; appended"
    )
    parser.add_argument("--beside", metavar="PYTHON", help="also train in PyTorch, with this Python interpreter")
    parser.add_argument("--picture", action="store_true", help="save the run's last samples as the recipe's picture")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy the run to DIR/NAME-SEED")
    parser.add_argument("--curves", action="store_true", help="draw curves from the results; trains nothing")
    parser.add_argument("--table", action="store_true", help="print recorded results and bars; trains nothing")
    arguments = parser.parse_intermixed_args(argv)  # values may follow options
    overrides = [word for word in arguments.words if "=" in word]
    names = [word for word in arguments.words if "=" not in word] or list(ROWS)
    if unknown := set(names) - set(ROWS):
        parser.error(f"no such recipe: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    if not arguments.short and (other := [word for word in overrides if not word.startswith(NEUTRAL)]):
        parser.error(f"{', '.join(other)} would change the result; only {', '.join(NEUTRAL)} may be set")
    if arguments.beside and (refused := _refused_beside(names, overrides, is_short=arguments.short)):
        parser.error(refused)
    if arguments.curves:
        for name in filter(results, names):
            keep_curve(name)
        return 0
    verdicts = []
    for line in table(names) if arguments.table else run_all(names, overrides, arguments):
        verdicts.append(line.get("ok", True))
        shown = {key: value for key, value in line.items() if key not in UNSHOWN}
        print(as_json(line) if arguments.json else describe(shown), flush=True)
    return exit_code(verdicts)


def _refused_beside(names: Sequence[str], overrides: Sequence[str], *, is_short: bool) -> str | None:
    """Returns why `--beside` can't also train in PyTorch, or None if it can."""
    if overrides and not is_short:
        return f"--beside trains the recipe without overrides, found {', '.join(overrides)}: PyTorch would ignore them"
    if is_short and (whole := [name for name in names if not ROWS[name].by_minutes]):
        return f"--short --beside is for recipes that are compared by minutes; {', '.join(whole)} are not"
    return None


def run_all(names: Sequence[str], overrides: Sequence[str], arguments: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Trains the recipes; yields a line of results after each one."""
    for number, name in enumerate(names):
        if arguments.estimate or arguments.short:
            with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
                if arguments.short:
                    given = [f"seed={arguments.seed}", *ROWS[name].short, *overrides]
                    training = train(name, given, Path(folder))
                    line = result(name, arguments.seed, training, given, {"recipe": name})
                    if arguments.beside and ROWS[name].by_minutes:
                        line |= pair_by_minutes(name, given, training, arguments.beside)
                    yield line
                elif (line := estimate(name, Path(folder)))["ok"] is None:
                    yield line  # not appended: other processes used the machine
                else:
                    yield ledger.append(file_of(name), line)
            continue
        if arguments.same_as is not None:
            shown = provenance.same_as(name, arguments.same_as.absolute())
            yield ledger.append(file_of(name), {**provenance.origin(name), **shown})
            continue
        origin = {**provenance.origin(name), "fingerprint": provenance.fingerprint(name)}
        if arguments.fingerprint:
            yield ledger.append(file_of(name), origin)
            continue
        if arguments.beside and not ROWS[name].by_minutes:
            yield ledger.append(file_of(name), {**origin, **pair(name, arguments.seed, arguments.beside)})
            continue
        folder = folder_of(name, arguments.seed, overrides, origin)
        given = [f"seed={arguments.seed}", *overrides]
        training = train(name, given, folder, functools.partial(report, names[number:], bool(arguments.beside)))
        line = result(name, arguments.seed, training, overrides, origin)
        if arguments.beside:
            line |= pair_by_minutes(name, given, training, arguments.beside)
        line = ledger.append(file_of(name), line)
        line["ok"], line["missed"] = verdict(ROWS[name], line["metrics"], line["seconds"])
        if arguments.picture:
            keep_picture(name, training.run)
        if arguments.keep is not None:
            shutil.copytree(
                folder / "run", arguments.keep / f"{name}-{arguments.seed}", symlinks=True, dirs_exist_ok=True
            )
        shutil.rmtree(folder)
        yield line


def report(names: Sequence[str], with_peer: bool, run: Run) -> None:
    """Prints the progress of the run of the first of `names`, and the remaining time of all of them. Later recipes are
    expected to take as long as when last measured, or as long as their bars allow.
    """
    expected = {name: known_seconds(name) or ROWS[name].seconds for name in names}
    twice = {name for name in names if with_peer and ROWS[name].by_minutes}
    if (left := remaining(run)) is not None:
        expected[names[0]] = run.seconds + left
    total = sum(seconds * (1 + (name in twice)) for name, seconds in expected.items()) - run.seconds
    print(f"{names[0]}: {progress(run)}; {_minutes(max(0.0, total))} left", file=sys.stderr, flush=True)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def folder_of(name: str, seed: int, overrides: Sequence[str], origin: Mapping[str, Any]) -> Path:
    """Returns the folder of a run until its line is appended: the same for the same run with equal code and data."""
    told = as_json({"overrides": list(overrides), **{key: origin[key] for key in ("digests", "versions", "machine")}})
    return WORK / f"{name}-{seed}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def pair(name: str, seed: int, python: str) -> dict[str, Any]:
    """Trains a recipe here and in PyTorch, on the same batches with equally many threads; returns both metrics."""
    from recipe_parity import tested_pair

    ours, peer = tested_pair(name, python, [f"seed={seed}"])
    return {
        "seed": seed,
        **{key: {f"test/{metric}": round(value, 6) for metric, value in told.items()}
           for key, told in (("ours", ours), ("peer", peer))},
    }  # fmt: skip


def pair_by_minutes(name: str, overrides: Sequence[str], training: Training, python: str) -> dict[str, Any]:
    """Returns the test metrics of a run, and of PyTorch after the same time: as `disturbed_peer` if other processes
    used the machine. If the run was interrupted, PyTorch gets the time of all of its attempts.

    Raises:
        RuntimeError: PyTorch's process failed.
    """
    from recipe_minutes import after_the_same_minutes

    print(f"{name}: PyTorch trains for {_minutes(training.taken)}", file=sys.stderr, flush=True)
    watch = Watch()
    metrics, steps = after_the_same_minutes(name, python, overrides, training.taken)
    disturbance = max(training.disturbance, watch.disturbance)
    ours = {key: round(value, 6) for key, value in training.end.metrics.items() if key.startswith("test/")}
    theirs = {f"test/{key}": round(value, 6) for key, value in metrics.items()}
    is_quiet = disturbance <= DISTURBED_SHARE
    return {
        "ours": ours, "peer" if is_quiet else "disturbed_peer": theirs, "peer_steps": steps,
        "disturbance": round(disturbance, 3),
    }  # fmt: skip


def describe(line: Mapping[str, Any]) -> str:
    """Returns a line of results as readable text: key=value."""
    words = {True: "ok", False: "MISSED", None: "can't tell"}
    parts = {key: value for key, value in line.items() if key not in ("recipe", "ok")}
    flat = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in parts.items()]
    return f"{line['recipe']:14} {words[line['ok']] if 'ok' in line else 'measured':10} {'  '.join(flat)}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, so that a running training stops, too
    raise SystemExit(main())
