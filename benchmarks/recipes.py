"""The gallery's bars: a recipe from the command to the end event, on the test split.

    python benchmarks/recipes.py digits clothes --seed 0            one run each, appended to results/NAME.jsonl
    python benchmarks/recipes.py clothes --seed 1 threads=1         the same numbers by one thread (the seconds aren't)
    python benchmarks/recipes.py lsgan --beside PYTHON --seed 0     the same training in PyTorch, too; appended
    python benchmarks/recipes.py vit --beside PYTHON --seed 0       one run, and PyTorch for as many minutes; appended
    python benchmarks/recipes.py digits --fingerprint               whether a change left the numbers alone; appended
    python benchmarks/recipes.py digits --same-as ../before         the same of a configuration in other words; appended
    python benchmarks/recipes.py digits --short                     a few steps, to see that it works; not appended
    python benchmarks/recipes.py clothes --estimate                 how long all of it takes, by a few epochs; appended
    python benchmarks/recipes.py clothes --picture                  also: the run's last samples as the recipe's picture
    python benchmarks/recipes.py --curves                           draws the curve.png of each recipe with results
    python benchmarks/recipes.py --table                            what the results say, a line a recipe

Each run is a command of its own with an empty folder for compiled kernels. The end event has the metrics of the test
split, with the weights that `checkpoint.best` chose on the validation split. A run that is interrupted goes on when the
same is asked for again, from its folder below `runs/recipes`; one that has ended is not begun again for PyTorch's part.
Twice a minute standard error says how far it is and how long the rest of the command takes.

A line of results has `seconds` from the command to its exit, null where other processes used more than 5 % of the
machine, threads were set, or the run was interrupted. It names what it depends on (`provenance.py`): digests of the
lowered programs, the learner, the recipe and its parts, its configuration and its data; versions, the machine, and the
digest of a short training (`--fingerprint`). Lines are appended, and superseded by later ones of the same seed;
`ledger.py` finds one that was edited or removed.

The table counts a line's metrics while all digests are those of the checkout, or a fingerprint run of the checkout had
the same bits as the line's; its seconds while the digests are the same. Programs are lowered for the machine that a
line names, so the table is the same on every machine. A recipe reaches its bars when the means over all of its seeds
do, and the slowest of the runs is in time. What no longer counts is listed as stale, with what differs. The exit code
is 1 where a bar is missed, else 3 where one can't be told.
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
NEUTRAL = ("threads=", "data.workers=", "data.worker_kind=", "autotune.mode=")  # what changes no bit of a result


@dataclass(frozen=True)
class Bar:
    """What a metric of the end event must reach, as a mean over seeds.

    Args:
        least: the lower bound; most: the upper one.
        by_peer: the bounds are of our mean divided by PyTorch's.
        gates: whether the recipe's verdict takes part in it. A bar that does not is reported all the same.
        note: where a bar that does not gate comes from.
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
        """Whether a value is within the bounds; NaN never is."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def describe(self, value: float) -> str:
        """The value next to the bounds, and where the bar comes from."""
        bounds = [
            f"at {word} {bound:g}" for word, bound in (("least", self.least), ("most", self.most)) if bound is not None
        ]
        return f"{self.name} {value:.4g}, bar {' and '.join(bounds)}{f' ({self.note})' if self.note else ''}"


@dataclass(frozen=True)
class Row:
    """A recipe's bars.

    Args:
        seconds: what the whole command may take on two cores.
        curve: the validation metric that is drawn over the epochs.
        bars: of the metrics.
        seeds: how many seeds a verdict needs.
        by_minutes: `--beside` trains PyTorch for as many minutes as our command took (`recipe_minutes.py`), instead of
            for as many steps on the same batches (`recipe_parity.py`). Such a pair counts if it was timed.
        short: overrides for a run of a few steps.
        loss: the training metric that falls even within those.
        further: what else is measured of a run, beside the metrics of its end event.
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
    """The Fréchet distance on the validation split after the last epoch, and the greatest in the second half of the
    run, relative to the first one.

    NaN, which reaches no bar, where such a distance is NaN or the first one is not finite.
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
    """A line of results/NAME.jsonl."""
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
    """Whether values of metrics, by the bars' names, and seconds reach a recipe's bars, and the bars that are missed.

    None where a bar that gates has no value, or nothing was timed.
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
    """(epoch, value) of a metric, "valid/accuracy", at each validation."""
    series = run.metrics[metric]
    return [(round(epoch, 3), round(value, 6)) for epoch, value in zip(series.epoch, series.value, strict=True)]


def estimate(name: str, folder: Path) -> dict[str, Any]:
    """Seconds of a whole run on this machine as it is, from its beginning to the second validation.

    What lies between the first and the second one, epochs, validation and all, is repeated to the end.
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
    """The lines of results/NAME.jsonl that are of the recipe's present configuration, stale ones included.

    Lines of an earlier configuration count where a later line says that it is the same in other words.
    """
    lines = ledger.read(file_of(name))
    same = {provenance.configuration(name)}
    for line in reversed(lines):
        if "same_as" in line and _configuration_of(line) in same:
            same.add(line["same_as"])
    return [line for line in lines if any(one.startswith(_configuration_of(line)) for one in same)]


def _configuration_of(line: Mapping[str, Any]) -> str:
    """Lines without digests have a shorter one of the configuration alone."""
    return str(line["digests"]["configuration"] if "digests" in line else line["configuration"])


def latest(lines: Iterable[Mapping[str, Any]], kind: str = "metrics") -> list[Mapping[str, Any]]:
    """The last line of each seed that has a field, one that is not null."""
    return list({line["seed"]: line for line in lines if "seed" in line and line.get(kind) is not None}.values())


def results(name: str) -> list[Mapping[str, Any]]:
    """A recipe's runs, the latest of each seed, stale ones included."""
    return latest(recorded(name))


def known_seconds(name: str) -> float | None:
    """Seconds of a whole run when last measured: the slowest that was timed, else the latest estimate, else None."""
    timed = [line["seconds"] for line in latest(recorded(name), "seconds")]
    estimates = [line["estimated_seconds"] for line in recorded(name) if "estimated_seconds" in line]
    return max(timed) if timed else (estimates or [None])[-1]


def means(row: Row, runs: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean over seeds for each bar that has been measured, by the bar's name: of runs, or of pairs with PyTorch."""
    found: dict[str, float] = {}
    for bar in row.bars:
        if bar.by_peer and pairs:
            found[bar.name] = mean(pairs, "ours", bar.metric) / mean(pairs, "peer", bar.metric)
        elif not bar.by_peer and runs:
            found[bar.name] = mean(runs, "metrics", bar.metric)
    return found


def mean(lines: Sequence[Mapping[str, Any]], kind: str, key: str) -> float:
    """The mean of a metric; nan where it is missing in a line or was no finite number, which JSON has as null."""
    values = [nan if (value := line[kind].get(key)) is None else float(value) for line in lines]
    return sum(values) / len(values)


def table(names: Iterable[str] = ROWS) -> Iterable[dict[str, Any]]:
    """What each recipe reached of its bars in results that count today, and which do not."""
    for name in names:
        lines = recorded(name)
        yield standing(name, lines, provenance.now(name, lines))


def standing(name: str, lines: Sequence[Mapping[str, Any]], now: Mapping[str, Any]) -> dict[str, Any]:
    """What the lines of a recipe say of what there is now."""
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
    """Make the samples of the run's last validation the recipe's picture, side by side in rows of about a square."""
    from recipe_pictures import grid

    samples = [record.event for record in read_events(run.paths.events)]
    files = [(event.step, event.file) for event in samples if isinstance(event, SampleEvent)]
    last = [run.paths.root / file for step, file in files if step == files[-1][0]]
    palette = grid(last).quantize(256)  # a third of the bytes
    palette.save(ROOT / "trainer" / "recipes" / name / f"{name}.png", optimize=True)


def keep_curve(name: str) -> None:
    """Draw the curves of a recipe's results as `curve.png` in its folder."""
    from recipe_pictures import curves

    lines = {
        f"seed {line['seed']}": [point for point in line["curve"] if point[1] is not None] for line in results(name)
    }
    curves(lines, ROWS[name].curve).save(ROOT / "trainer" / "recipes" / name / "curve.png", optimize=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train recipes and hold them against their bars.")
    parser.add_argument("words", nargs="*", metavar="NAME | threads=N", help=f"default all: {', '.join(ROWS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object a line, as it is appended")
    parser.add_argument("--short", action="store_true", help="a few steps; appends nothing")
    parser.add_argument("--estimate", action="store_true", help="a few epochs, and what all of them would take")
    parser.add_argument("--fingerprint", action="store_true", help="the digest of a short training; appended")
    parser.add_argument(
        "--same-as", type=Path, metavar="CHECKOUT", help="its configuration had the same bits; appended"
    )
    parser.add_argument("--beside", metavar="PYTHON", help="train in PyTorch, too, by an interpreter that has it")
    parser.add_argument("--picture", action="store_true", help="keep the run's last samples as the recipe's picture")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy the run to DIR/NAME-SEED")
    parser.add_argument("--curves", action="store_true", help="draw curves from the results; runs nothing")
    parser.add_argument("--table", action="store_true", help="what the results say; trains nothing")
    arguments = parser.parse_intermixed_args(argv)  # values may stand behind options
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
    """Why `--beside` can't train PyTorch, too; None: it can."""
    if overrides and not is_short:
        return f"--beside takes the recipe as it is, without {', '.join(overrides)}: PyTorch would not follow"
    if is_short and (whole := [name for name in names if not ROWS[name].by_minutes]):
        return f"--short --beside is for recipes that are compared by minutes; {', '.join(whole)} are not"
    return None


def run_all(names: Sequence[str], overrides: Sequence[str], arguments: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """A line of results for each recipe, as they end."""
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
                    yield line  # of a machine that others used
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
    """Print how far the run of the first of `names` is, and how long all of them take: those to come as long as they
    took when last measured, or as their bars allow.
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
    """Where a run is kept until its line is appended: the same for the same run of the same code and data."""
    told = as_json({"overrides": list(overrides), **{key: origin[key] for key in ("digests", "versions", "machine")}})
    return WORK / f"{name}-{seed}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def pair(name: str, seed: int, python: str) -> dict[str, Any]:
    """The metrics of a recipe's training, and of the same in PyTorch, on the same batches by as many threads."""
    from recipe_parity import tested_pair

    ours, peer = tested_pair(name, python, [f"seed={seed}"])
    return {
        "seed": seed,
        **{key: {f"test/{metric}": round(value, 6) for metric, value in told.items()}
           for key, told in (("ours", ours), ("peer", peer))},
    }  # fmt: skip


def pair_by_minutes(name: str, overrides: Sequence[str], training: Training, python: str) -> dict[str, Any]:
    """The test metrics of a run, and those of PyTorch after as many minutes, as `disturbed_peer` where other processes
    used the machine. For a run that was interrupted PyTorch gets the minutes of all of its attempts.

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
    """A line for people: key=value."""
    words = {True: "ok", False: "MISSED", None: "can't tell"}
    parts = {key: value for key, value in line.items() if key not in ("recipe", "ok")}
    flat = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in parts.items()]
    return f"{line['recipe']:14} {words[line['ok']] if 'ok' in line else 'measured':10} {'  '.join(flat)}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that a run that is training stops, too
    raise SystemExit(main())
