"""Windows over time series in tables: the history up to a time, and the future after it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import Dataset
from trainer.datasets.fields import Batch, Item
from trainer.datasets.readers.division import Division
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.table import check_columns, read_rows
from trainer.datasets.scaling import Scaling
from trainer.datasets.split_words import TRAIN


class Series:
    """Items {history float32 [input_length, C], future float32 [forecast_length, T]} of a table with a row per time.

    `history` has the targets first, then the features; `future` has the targets of the rows that follow. Both are
    scaled. Item i starts at row i * `step`. A split contains the windows whose future lies in it; their history may
    begin in the previous split, as it does when the model is used. Rows without a finite number in each column go to
    `opening.on_problem`, and no window contains them.

    Args:
        root: the data folder.
        file: a .csv, .tsv, .jsonl or .ndjson file, UTF-8, relative to `root`, with its rows in the order of time.
        targets: columns to predict.
        features: further columns of the history.
        date: column of the time of each row, ISO 8601; None: rows have equal distances.
        input_length, forecast_length: number of rows of the history and of the future.
        step: rows between the starts of two items.
        regular: whether times must have equal distances (days, months, …).
        scaling: "standard": mean 0 and standard deviation 1 over the training rows; "none".
        statistics: scaling of another split, as plain values; None: that of the training rows.
        division: the splits that `divided` takes from the end of the table.

    Raises:
        TrainerError: the file or a column is missing, times don't increase or have gaps, or a split is shorter than one
            window, or each of its windows has an unusable row.
    """

    class_names: Sequence[str] = ()

    def __init__(
        self,
        root: Path,
        *,
        file: str,
        targets: Sequence[str],
        features: Sequence[str] = (),
        date: str | None = None,
        input_length: int,
        forecast_length: int,
        step: int = 1,
        regular: bool = True,
        scaling: str = "standard",
        statistics: Sequence[Sequence[Any]] | None = None,
        division: Division = Division(),  # noqa: B008 - frozen
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        self.path, self.targets, self.columns = root / file, tuple(targets), (*targets, *features)
        self.input_length, self.forecast_length, self.step = input_length, forecast_length, step
        lines, _, values = read_series(self.path, self.columns, date, is_regular=regular, opening=opening)
        ranges, is_usable = division.ranges(len(values)), np.isfinite(values).all(axis=1)
        self._unusable = np.concatenate([[0], np.cumsum(~is_usable)])
        if statistics is not None:
            self.scaling = Scaling(*map(tuple, statistics))
        elif scaling == "standard":
            known = values[: ranges[TRAIN].stop][is_usable[: ranges[TRAIN].stop]]
            if not len(known):
                raise TrainerError(
                    "no training row can be used", where=str(self.path),
                    found=f"{ranges[TRAIN].stop} rows, each with a value that is missing or not finite",
                    expected="at least one row with a finite number in each column",
                )  # fmt: skip
            self.scaling = Scaling.of(self.columns, known)
        else:
            count = len(self.columns)
            self.scaling = Scaling(self.columns, (0.0,) * count, (1.0,) * count)
        self._lines, self._values = lines, self.scaling.scale(values)
        self._splits = {split: self._starts(rows, split) for split, rows in ranges.items()}
        self._starts_here = self._splits[TRAIN]

    def _starts(self, rows: range, split: str) -> np.ndarray:
        """The first rows of the windows whose future is in a split, and whose rows can all be used."""
        first, length = max(0, rows.start - self.input_length), self.input_length + self.forecast_length
        starts = np.arange(first, rows.stop - length + 1, self.step)
        whole = starts[self._unusable[starts + length] == self._unusable[starts]]
        if len(starts) and not len(whole):
            raise TrainerError(
                "no window of a split can be used", where=f"{self.path}, split {split}",
                found=f"{len(starts)} windows, each with an unusable row", expected="at least one without",
            )  # fmt: skip
        if not len(starts):
            raise TrainerError(
                "the series is shorter than one window",
                where=f"{self.path}, split {split}",
                found=f"{len(rows)} rows",
                expected=f"at least {self.forecast_length + (self.input_length if split == TRAIN else 0)}",
                hint="Set a smaller input_length or forecast_length, or larger fractions for small splits.",
            )
        return whole

    def shared_settings(self) -> Mapping[str, Any]:
        """The settings that other splits must share."""
        scaling = self.scaling
        return {"statistics": (scaling.columns, scaling.means, scaling.deviations)}

    def divided(self) -> dict[str, Dataset]:
        """The data set of each split, in the order of time."""
        found: dict[str, Series] = {}
        for split, starts in self._splits.items():
            found[split] = part = copy.copy(self)
            part._starts_here = starts
        return dict(found)

    def __len__(self) -> int:
        return len(self._starts_here)

    def source(self, index: int) -> str:
        start = int(self._starts_here[index])
        end = start + self.input_length + self.forecast_length - 1
        return f"{self.path}:{self._lines[start]} to {self._lines[end]}"

    def __getitem__(self, index: int) -> Item:
        return {name: values[0] for name, values in self.take(np.array([index])).items()}

    def take(self, indices: np.ndarray) -> Batch:
        """The items `indices` as one batch."""
        length = self.input_length
        rows = self._starts_here[indices][:, None] + np.arange(length + self.forecast_length)
        window = self._values[rows]
        return {"history": window[:, :length], "future": window[:, length:, : len(self.targets)]}


def read_series(
    path: Path, columns: Sequence[str], date: str | None, *, is_regular: bool = True,
    opening: Opening = Opening(),  # noqa: B008 - frozen
) -> tuple[list[int], list[datetime] | None, np.ndarray]:  # fmt: skip
    """The line numbers, the times and the values float64 [N, columns] of a table's rows. A row without a finite number
    in each column goes to `opening.on_problem`, and is NaN if that does not raise.

    Raises:
        TrainerError: as `Series` does.
    """
    present, rows = read_rows(path)
    check_columns(present, [*columns, *([] if date is None else [date])], path)
    lines: list[int] = []
    times: list[datetime] = []
    values: list[list[float]] = []
    for line, row in rows:
        if isinstance(row, TrainerError):
            raise row
        where = f"{path}:{line}"
        if date is not None:
            times.append(_time(row.get(date), date, where))
            if (times[-1].tzinfo is None) != (times[0].tzinfo is None):
                raise TrainerError(
                    "only some times have an offset from UTC", where=where, found=f"{_shown(times[-1])} after "
                    f"{_shown(times[0])}", expected="an offset (such as +01:00 or Z) in every row, or in none",
                )  # fmt: skip
            if times[1:] and times[-1] <= times[-2]:
                raise TrainerError(
                    "the times of the rows don't increase", where=where, found=f"{_shown(times[-1])} after "
                    f"{_shown(times[-2])}", expected="a later time in each row", hint="Sort the rows by time.",
                )  # fmt: skip
        lines.append(line)
        try:
            values.append([_value(row.get(name), name, where) for name in columns])
        except TrainerError as error:
            opening.on_problem(error)
            values.append([np.nan] * len(columns))
    if not lines:
        raise TrainerError("the table has no rows", where=str(path))
    if date is not None and is_regular:
        _refuse_gaps(times, lines, path)
    return lines, times if date is not None else None, np.array(values, np.float64)


def following(times: Sequence[datetime], count: int) -> list[datetime]:
    """The next `count` times after regular ones, at the distance of the last two."""
    months = _months(times[-2], times[-1])
    found = [*times]
    for _ in range(count):
        last = found[-1]
        if months is None:
            found.append(last + (times[-1] - times[-2]))
        else:
            whole = last.year * 12 + last.month - 1 + months
            day = min(max(times[-2].day, times[-1].day), _days(whole // 12, whole % 12 + 1))
            found.append(last.replace(year=whole // 12, month=whole % 12 + 1, day=day))
    return found[len(times) :]


def _time(text: object, column: str, where: str) -> datetime:
    try:
        return datetime.fromisoformat(str(text).strip())
    except ValueError:
        pass
    try:
        return datetime.strptime(str(text).strip(), "%Y-%m")
    except ValueError:
        raise TrainerError(
            "a row has no time" if text in (None, "") else "not a time", where=where, found=f"{column} = {text!r}",
            expected="ISO 8601, such as 2024-03-01, 2024-03 or 2024-03-01T12:30",
        ) from None  # fmt: skip


def _value(value: Any, column: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number) or isinstance(value, bool):
        raise TrainerError(
            "a value of the series is missing" if value in (None, "") else "not a finite number", where=where,
            found=f"{column} = {value!r}", expected="a finite number",
            hint="Fill the gap, for instance with the value before, or leave the column out. In a training, "
            "data.on_error: skip leaves out the windows that contain the row.",
        )  # fmt: skip
    return number


def _refuse_gaps(times: Sequence[datetime], lines: Sequence[int], path: Path) -> None:
    if len(times) < 3:
        return
    step, months = times[1] - times[0], _months(times[0], times[1])
    for number, (one, other) in enumerate(pairwise(times[1:]), 2):
        is_regular = other - one == step if months is None else _months(one, other) == months
        if not is_regular:
            raise TrainerError(
                "the times of the rows have unequal distances", where=f"{path}:{lines[number]}",
                found=f"{_shown(other)} after {_shown(one)}",
                expected=f"a distance of {step if months is None else f'{months} months'}, as in the first two rows",
                hint="Add the missing rows, or set data.reader.regular to false.",
            )  # fmt: skip


def _months(one: datetime, other: datetime) -> int | None:
    """The whole months between two times on the same day of the month, or on the last days; None for other times."""
    both_last = all(time.day == _days(time.year, time.month) for time in (one, other))
    if one.time() != other.time() or not (one.day == other.day or both_last):
        return None
    return (other.year - one.year) * 12 + other.month - one.month or None


def _days(year: int, month: int) -> int:
    following = date(year + month // 12, month % 12 + 1, 1)
    return (following - timedelta(days=1)).day


def _shown(time: datetime) -> str:
    return time.isoformat(sep=" ").removesuffix(" 00:00:00")
