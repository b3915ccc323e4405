"""States with several tables: arrays by "table.column", where the columns of a table have equal length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from trainer.metrics.rows import Columns


class Tables(Mapping[str, np.ndarray]):
    """Tables by name; as a mapping, arrays by "table.column", the form of saved states.

    Args:
        state: arrays in this form; they are copied when rows are appended.
    """

    def __init__(self, state: Mapping[str, np.ndarray] | None = None) -> None:
        self._tables: dict[str, Columns] = {}
        if isinstance(state, Tables):
            self._tables = dict(state._tables)
            return
        columns: dict[str, dict[str, np.ndarray]] = {}
        for name, values in (state or {}).items():
            table, _, column = name.partition(".")
            columns.setdefault(table, {})[column] = values
        self._tables = {table: Columns(found) for table, found in columns.items()}

    def table(self, name: str) -> Columns:
        """The columns of a table."""
        return self._tables[name]

    def append(self, name: str, rows: Mapping[str, np.ndarray]) -> None:
        """Appends rows to a table."""
        self._tables.setdefault(name, Columns()).append(rows)

    def extend(self, other: Tables) -> None:
        """Appends all rows of other tables."""
        for name, columns in other._tables.items():
            self.append(name, columns)

    def __getitem__(self, name: str) -> np.ndarray:
        table, _, column = name.partition(".")
        return self._tables[table][column]

    def __iter__(self) -> Iterator[str]:
        return (f"{table}.{column}" for table, columns in self._tables.items() for column in columns)

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))
