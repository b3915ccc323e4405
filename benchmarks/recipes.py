"""The gallery's bars: a recipe from the command to the end event, on the test split.

    python benchmarks/recipes.py digits clothes --seed 0            one run each, appended to results/NAME.jsonl
    python benchmarks/recipes.py clothes --seed 1 threads=1         the same numbers by one thread (the seconds aren't)
    python benchmarks/recipes.py digits --short                     a few steps, to see that it works; not appended
    python benchmarks/recipes.py clothes --estimate                 how long all of it takes, by a few epochs; appended
    python benchmarks/recipes.py clothes --picture                  also: the run's last samples as the recipe's picture
    python benchmarks/recipes.py --curves                           draws every recipe's curve.png from its results
    python benchmarks/recipes.py --table                            what the results say, a line a recipe; runs nothing

Each run is a command of its own with an empty folder for compiled kernels. The end event has the metrics of the test
split, with the weights that `checkpoint.best` chose on the validation split. A line of results has `seconds` from the
command to its exit, null where other processes used more than 5 % of the machine or threads were set; `ok` is then null
too, unless a bar is missed. A recipe reaches its bars when the means over the latest line of each seed do, and the
slowest of them, or the latest estimate where none was timed, is in time. Lines of another configuration than the
recipe's present one don't count. A disturbed estimate is not appended.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

from harness import DISTURBED_SHARE, ROOT, as_json, checkout_environment, largest
from load import machine_seconds, own_seconds

from trainer import open_run
from trainer.rundir import EndEvent, MetricEvent, Run, SampleEvent, read_events

RESULTS = Path(__file__).parent / "results"
SHORT = ("train.epochs=null", "train.steps=12", "train.log_every_steps=2", "schedule.warmup_steps=2")
NEUTRAL = ("threads=", "data.workers=", "data.worker_kind=", "tuning.mode=")  # what changes no bit of a result


@dataclass(frozen=True)
class Row:
    """A recipe's bars.

    Args:
        least: by metric of the end event, what it must reach; most: what it may be at most.
        seconds: what the whole command may take on two cores.
        curve: the validation metric that is drawn over the epochs.
        short: overrides for a run of a few steps.
        loss: the training metric that falls even within those.
        further: what else is measured of a run, beside the metrics of its end event.
    """

    seconds: float
    curve: str
    least: Mapping[str, float] | None = None
    most: Mapping[str, float] | None = None
    short: tuple[str, ...] = SHORT
    loss: str = "train/loss"
    further: Callable[[Run], Mapping[str, float]] = lambda run: {}


def frechet_by_its_first(run: Run) -> dict[str, float]:
    """The Fréchet distance after the last epoch, and the greatest in the second half of the run, by the first one.

    NaN, which reaches no bar, where such a distance is NaN or the first one is not finite.
    """
    values = run.metrics["valid/ema/frechet"].value
    first, late = values[0] if isfinite(values[0]) else nan, values[len(values) // 2 :]
    return {"frechet_by_first": values[-1] / first, "late_frechet_by_first": largest(late) / first}


ROWS = {
    "clothes": Row(900, "valid/ema/accuracy", least={"test/ema/accuracy": 0.74}),
    "detection": Row(900, "valid/ema/coco/AP", least={"test/ema/coco/AP50": 0.86, "test/ema/coco/AP": 0.54}),
    "digits": Row(60, "valid/accuracy", least={"test/accuracy": 0.99}),
    "lsgan": Row(
        900,
        "valid/ema/frechet",
        most={"frechet_by_first": 0.5, "late_frechet_by_first": 0.5},
        short=("train.epochs=null", "train.steps=64", "train.log_every_steps=32"),
        loss="train/discriminator_loss",
        further=frechet_by_its_first,
    ),
    "pix2pix": Row(
        1200,
        "valid/ema/l1",
        least={"test/ema/ssim": 0.27},  # both against a training that fails; `recognised.py` and `parity.py` judge it
        most={"test/ema/l1": 0.32},
        short=("train.epochs=null", "train.steps=24", "train.log_every_steps=8"),
    ),
    "nuclei": Row(
        1200,
        "valid/ema/objects/AP",
        least={"test/ema/iou": 0.88, "test/ema/objects/AP": 0.45, "test/ema/objects/AP50": 0.75},
        short=(*SHORT, "options.widths=[8, 12]", "options.flips=false", "options.rare=1", "options.peak=0.6"),
    ),
    "segmentation": Row(
        1200,
        "valid/ema/mean_iou",
        least={"test/ema/mean_iou": 0.60},
        short=(*SHORT, "options.widths=[8, 12]", "options.flips=false", "data.batch_size=2"),
    ),
}


@dataclass(frozen=True)
class Training:
    """A command that has ended: its run, its wall time, and the share of the machine that others used meanwhile."""

    run: Run
    end: EndEvent
    seconds: float
    disturbance: float


def train(name: str, overrides: Sequence[str], folder: Path) -> Training:
    """Run a recipe into `folder`/run with an empty kernel cache in `folder`/cache.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-P", "-m", "trainer.cli", "run", name, "--plain", f"--run-dir={folder / 'run'}"]
    environment = checkout_environment(TRAINER_CACHE_DIR=str(folder / "cache"))
    started, busy, own = time.perf_counter(), machine_seconds(), own_seconds()
    done = subprocess.run([*command, *overrides], capture_output=True, text=True, env=environment, check=False)
    seconds = time.perf_counter() - started
    others = (machine_seconds() - busy) - (own_seconds() - own)
    if done.returncode:
        raise RuntimeError(f"trainer run {name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    run = open_run(folder / "run")
    assert isinstance(run.end, EndEvent)
    return Training(run, run.end, seconds, max(0.0, others / (seconds * (os.cpu_count() or 1))))


def result(
    name: str, seed: int, training: Training, overrides: Sequence[str], origin: Mapping[str, str]
) -> dict[str, Any]:
    """A line of results/NAME.jsonl."""
    row = ROWS[name]
    metrics = {key: value for key, value in training.end.metrics.items() if key.startswith("test")}
    metrics |= row.further(training.run)
    is_timed = training.disturbance <= DISTURBED_SHARE and not overrides
    reached = reaches(row, metrics)
    ok = reached and (training.seconds <= row.seconds if is_timed else None)
    return {
        **origin,
        "seed": seed,
        "seconds": round(training.seconds, 1) if is_timed else None,
        "disturbance": round(training.disturbance, 3),
        "steps": training.end.step,
        "metrics": {key: round(value, 6) for key, value in metrics.items()},
        "bars": {**(row.least or {}), **(row.most or {}), "seconds": row.seconds},
        "ok": ok,
        "curve": curve(training.run, row.curve),
    }


def reaches(row: Row, metrics: Mapping[str, float]) -> bool:
    """Whether metrics reach all of a recipe's bars but the time."""
    least = all(metrics[name] >= bar for name, bar in (row.least or {}).items())
    return least and all(metrics[name] <= bar for name, bar in (row.most or {}).items())


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
    origin = origin_of(name)
    training = train(name, (f"train.epochs={2 * every}", "schedule.warmup_steps=null"), folder)
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


def origin_of(name: str) -> dict[str, str]:
    """What a line of results is of. Taken before the training: files may change while it lasts."""
    return {"recipe": name, "revision": revision(), "configuration": configuration(name)}


def revision() -> str:
    """The commit of the checkout, with a + where files differ from it."""
    git = ("git", "-C", str(ROOT))
    commit = subprocess.run((*git, "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True).stdout
    changes = (*git, "status", "--porcelain", "--untracked-files=no", "--", "trainer")
    is_changed = subprocess.run(changes, capture_output=True, text=True, check=True).stdout
    return commit.strip() + ("+" if is_changed else "")


@functools.cache
def configuration(name: str) -> str:
    """A short hash of what a recipe's config.yaml and options say, but for the seed."""
    from trainer.configs import load

    loaded = load(name)
    said = loaded.config.model_dump(mode="json", exclude_unset=True, exclude={"seed"})
    said["options"] = loaded.options.model_dump(mode="json")
    text = json.dumps(said, sort_keys=True).replace(str(ROOT), "")  # files are the same in every checkout
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def append(line: Mapping[str, Any]) -> None:
    """Add a line to the recipe's results."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{line['recipe']}.jsonl").open("a", encoding="utf-8") as file:
        file.write(as_json(line) + "\n")


def results(name: str) -> list[dict[str, Any]]:
    """A recipe's runs, the latest of each seed."""
    return list({line["seed"]: line for line in recorded(name) if "seed" in line}.values())


def known_seconds(name: str) -> float | None:
    """What a whole run takes: the slowest that was timed, else the latest estimate, else None."""
    timed = [line["seconds"] for line in results(name) if line["seconds"] is not None]
    estimates = [line["estimated_seconds"] for line in recorded(name) if "estimated_seconds" in line]
    return max(timed) if timed else (estimates or [None])[-1]


def recorded(name: str) -> list[dict[str, Any]]:
    """The lines of results/NAME.jsonl that are of the recipe's present configuration, of runs and of estimates."""
    file = RESULTS / f"{name}.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    return [line for line in lines if line["configuration"] == configuration(name)]


def table() -> Iterable[dict[str, Any]]:
    """What each recipe reached of its bars, as a mean over seeds (nan where not measured), and whether it suffices."""
    for name, row in ROWS.items():
        lines = results(name)
        if lines:
            barred = [*(row.least or {}), *(row.most or {})]
            means = {key: sum(measured(line, key) for line in lines) / len(lines) for key in barred}
            seconds = known_seconds(name)
            ok = reaches(row, means) and (None if seconds is None else seconds <= row.seconds)
            yield {"recipe": name, "seeds": len(lines), "means": means, "seconds": seconds, "ok": ok}


def measured(line: Mapping[str, Any], key: str) -> float:
    """A metric of a line of results; nan where it is missing or was no finite number, which JSON has as null."""
    value = line["metrics"].get(key)
    return nan if value is None else float(value)


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
    parser.add_argument("--picture", action="store_true", help="keep the run's last samples as the recipe's picture")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy the run to DIR/NAME-SEED")
    parser.add_argument("--curves", action="store_true", help="draw curves from the results; runs nothing")
    parser.add_argument("--table", action="store_true", help="what the results say; runs nothing")
    arguments = parser.parse_intermixed_args(argv)  # values may stand behind options
    overrides = [word for word in arguments.words if "=" in word]
    names = [word for word in arguments.words if "=" not in word] or list(ROWS)
    if unknown := set(names) - set(ROWS):
        parser.error(f"no such recipe: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    if not arguments.short and (other := [word for word in overrides if not word.startswith(NEUTRAL)]):
        parser.error(f"{', '.join(other)} would change the result; only {', '.join(NEUTRAL)} may be set")
    if arguments.curves:
        for name in names:
            keep_curve(name)
        return 0
    missed = False
    for line in table() if arguments.table else run_all(names, overrides, arguments):
        missed |= line["ok"] is False
        shown = {key: value for key, value in line.items() if key != "curve"}
        print(as_json(line) if arguments.json else describe(shown), flush=True)
    return int(missed)


def run_all(names: Sequence[str], overrides: Sequence[str], arguments: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """A line of results for each recipe, as they end."""
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        kept = None if arguments.keep is None else arguments.keep / f"{name}-{arguments.seed}"
        try:
            if arguments.estimate:
                line = estimate(name, folder)
                if line["ok"] is not None:
                    append(line)
                yield line
                continue
            more = ROWS[name].short if arguments.short else ()
            origin = origin_of(name)
            training = train(name, [f"seed={arguments.seed}", *more, *overrides], folder)
            line = result(name, arguments.seed, training, overrides, origin)
            if arguments.short:
                line["ok"] = None
            else:
                append(line)
            if arguments.picture:
                keep_picture(name, training.run)
            yield line
        finally:
            if kept is not None and (folder / "run").is_dir():
                shutil.copytree(folder / "run", kept, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)


def describe(line: Mapping[str, Any]) -> str:
    """A line for people: key=value."""
    words = {True: "ok", False: "MISSED", None: "can't tell"}
    parts = {key: value for key, value in line.items() if key not in ("recipe", "ok")}
    flat = [f"{key}={json.dumps(value)}" for key, value in parts.items()]
    return f"{line['recipe']:14} {words[line['ok']]:10} {'  '.join(flat)}"


if __name__ == "__main__":
    raise SystemExit(main())
