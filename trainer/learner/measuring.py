"""The measurements of a training: its meters, the processes that fold rows, and reporting of values and reports."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.engine import State
from trainer.learner.deferred_actions import Read
from trainer.learner.meters import Meter, Taken
from trainer.learner.optimizers import Optimizer
from trainer.learner.ranks import ALONE, Group
from trainer.learner.tally import Tally
from trainer.metrics import Report
from trainer.metrics.binding import requested_metrics
from trainer.metrics.folding import FoldingProcess, NotANumber
from trainer.rundir import Event, MetricEvent, ReportEvent, RunPaths, WarningEvent, make_folders, write_error

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.plan import DataSplits

REPORT_FORMAT = 1

LOOK_SECONDS = 0.01
"""Seconds between checks for late values while the end of a run waits for them."""

ASIDE_NICENESS = 10
"""Priority of the process that evaluates during training: steps come first.

On two cores, training keeps 0.91 of its speed during evaluations (0.56 without this), and both together take 0.88 of
the time of running one after the other (1.02).
"""


AVERAGED = "ema/"
"""Prefix of the names of metrics of averaged weights."""


@dataclass(frozen=True)
class Occasion:
    """The step, epoch and split of a measurement; `prefix` starts the names (`AVERAGED` for averaged weights)."""

    step: int
    epoch: float
    split: str
    class_names: tuple[str, ...] = ()
    prefix: str = ""


class Measuring:
    """The meters of a training, and the reporting of their values.

    Attributes:
        train, valid, test: the meters; `test` is `valid` if the config's metrics are the same.
        late: called with values that arrive after their step, by "split/name".
        waits_aside: whether the training waits for a metric that is folded in another process.
    """

    def __init__(
        self, config: RunConfig, tell: Callable[[Event], None], paths: RunPaths | None, group: Group = ALONE
    ) -> None:
        self._tell, self._paths, self._group = tell, paths, group
        self.folders = {"worker": FoldingProcess(), "aside": FoldingProcess(niceness=ASIDE_NICENESS)}
        metrics = config.metrics
        self.train = Meter(Tally("train", requested_metrics(metrics.train)), self.folders)
        self.valid = Meter(Tally("valid", requested_metrics(metrics.valid)), self.folders)
        self.test = self.valid
        if metrics.test is not None and metrics.test != metrics.valid:
            self.test = Meter(Tally("test", requested_metrics(metrics.test)), self.folders)
        self.late: Callable[[dict[str, float]], None] = lambda values: None
        self.waits_aside = False
        self._pending: list[tuple[Occasion, Taken]] = []
        spike, best, stopping = config.train.spike, config.checkpoint.best, config.early_stopping
        self._awaited = {section.metric for section in (spike, best, stopping) if section is not None}

    def name_classes(self, names: Sequence[str]) -> None:
        """Passes the class names of the data set to the metrics of the config."""
        for meter in {self.train, self.valid, self.test}:
            for one in meter.tally.requested:
                one.metric.name_classes(names)

    def await_for(self, optimizers: Mapping[str, Optimizer]) -> None:
        """Registers the metrics that schedules of optimizers monitor."""
        for optimizer in optimizers.values():
            for rate in optimizer.learning_rates().values():
                self._awaited.update(rate.awaited_metrics())

    def awaits(self, split: str) -> bool:
        """Whether the training needs a metric of the split before the next step."""
        return any(name.startswith(f"{split}/") for name in self._awaited)

    def take(self, meter: Meter, occasion: Occasion, read: Read = State.numpy) -> dict[str, float]:
        """Returns the values of the period that ends here, as `Meter.take`; writes its reports and emits their events.

        Values folded in other processes are reported when available, unless the training needs them now.
        """
        nan = None if occasion.split == "train" else meter.tally.first_nan(read)
        if nan is not None:  # in a training step, the guards handle this
            role, batch, row = nan
            raise NotANumber(role, row, (occasion.split, 0, batch, 0))
        taken = meter.take(read)
        if not self._group.is_first:  # only rank 0 folds rows
            return dict(self._group.from_first())
        taken.wait(aside=False)
        if not self._has_awaited(taken, occasion):
            self.waits_aside = True
            taken.wait(aside=True)
        is_whole = taken.is_whole  # before reading the values: this receives the available ones
        values = {f"{occasion.prefix}{name}": value for name, value in taken.numbers.items()}
        self.report(taken.reports, occasion)
        if not is_whole:
            taken.numbers.clear()
            taken.reports.clear()
            self._pending.append((occasion, taken))
        self._group.from_first(values)
        return values

    def settle(self, *, wait: bool = False) -> None:
        """Reports late values, the available ones in order, or all of them."""
        while self._pending:
            occasion, taken = self._pending[0]
            if wait:
                taken.wait(aside=True)
            if not taken.is_whole:
                return
            self._pending.pop(0)
            values = {f"{occasion.prefix}{name}": value for name, value in taken.numbers.items()}
            final = occasion.split.partition("/")[0] == "test"
            self._tell(MetricEvent(occasion.step, occasion.epoch, occasion.split, values, final))
            self.report(taken.reports, occasion)
            self.late({f"{occasion.split}/{name}": value for name, value in values.items()})

    def settle_within(self, seconds: float) -> None:
        """Reports late values that arrive within a time limit."""
        deadline = time.monotonic() + seconds
        self.settle()
        while self._pending and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            self.settle()

    def is_pending(self, step: int) -> bool:
        """Whether some value of `step` is still being computed."""
        return any(occasion.step == step for occasion, _ in self._pending)

    @property
    def lag(self) -> int | None:
        """Number of records waiting to be folded; None if nothing is folded."""
        lags = [folder.lag for folder in self.folders.values() if folder.is_open]
        return sum(lags) if lags else None

    def close(self) -> None:
        """Ends the processes."""
        for folder in self.folders.values():
            folder.close()

    def _has_awaited(self, taken: Taken, occasion: Occasion) -> bool:
        head = f"{occasion.split}/"
        awaited = {name.removeprefix(head) for name in self._awaited if name.startswith(head)}
        of_these_weights = {name for name in awaited if name.startswith(AVERAGED) == bool(occasion.prefix)}
        return of_these_weights <= {f"{occasion.prefix}{name}" for name in taken.numbers}

    def report(self, reports: Mapping[str, Report], occasion: Occasion) -> None:
        """Writes reports by name, if there is a run directory, and reports them."""
        if self._paths is None:
            return
        for name, report in reports.items():
            shown = f"{occasion.prefix}{name}"
            try:
                file = write_report(self._paths, shown, report, occasion)
            except TrainerError as error:  # the values are already reported; a failed report file does not end the run
                self._tell(WarningEvent(f"A report was not written: {error}"))
                continue
            self._tell(
                ReportEvent(occasion.step, occasion.split, shown, str(file.relative_to(self._paths.root)), report.kind)
            )


def report_folder(paths: RunPaths, occasion: Occasion) -> Path:
    """The folder of the reports of an occasion."""
    return paths.reports / f"step-{occasion.step}" / occasion.split


def write_report(paths: RunPaths, name: str, report: Report, occasion: Occasion) -> Path:
    """Writes `reports/step-N/SPLIT/NAME.json`.

    Raises:
        TrainerError: the file can't be written.
    """
    content: dict[str, Any] = {
        "format": REPORT_FORMAT, "kind": report.kind, "metric": name, "split": occasion.split,
        "step": occasion.step, "epoch": occasion.epoch, "class_names": list(occasion.class_names), **report.data,
    }  # fmt: skip
    file = report_folder(paths, occasion) / f"{name}.json"
    try:
        make_folders(file.parent, paths.root)
        file.write_text(json.dumps(plain(content), allow_nan=False, separators=(",", ":")), encoding="utf-8")
    except OSError as error:
        raise write_error(file, error) from error
    return file


def plain(value: Any) -> Any:
    """The value in JSON's types: arrays as lists, numbers that are not finite as "nan", "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@contextmanager
def naming_items(splits: DataSplits) -> Iterator[None]:
    """Inside this context, an error about NaN names the item of the data."""
    try:
        yield
    except NotANumber as error:
        if error.at is None:
            raise
        split, epoch, batch, first_row = error.at
        row = first_row + error.row
        loader = {"train": splits.train, "valid": splits.valid, **splits.tests()}[split]
        assert loader is not None
        raise TrainerError(
            f"{split}: NaN in the {error.part} of a metric",
            where=loader.source_of(epoch, batch, row),
            found=f"row {row} of batch {batch} in epoch {epoch}",
            hint="The model returns NaN for this item: check its values, and the weights.",
        ) from error
