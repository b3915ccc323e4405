"""Number of test processes, and data that several folders of tests read."""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """In the full tier, freed memory is filled with NaN, so that reading it fails a test.

    Processes that a script starts in the background ignore Ctrl-C, and the processes of tests would inherit this.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if str(config.getoption("markexpr")).strip() == "full":
        os.environ.setdefault("TRAINER_POISON", "1")


def pytest_collection_finish() -> None:
    """Exempts the collected tests, half a million objects, from the garbage collections during the tests."""
    gc.freeze()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Uses one process if the command line names files, folders or tests, otherwise a process per core.

    Starting processes takes longer than most single files, and a debugger needs one process.
    """
    asked = config.invocation_params.args
    chosen = any(
        not str(argument).startswith("-") and (config.invocation_params.dir / _file(argument)).exists()
        for argument in asked
    )
    return 0 if chosen else None


def _file(argument: object) -> str:
    """The path part of a command-line argument such as `tests/a.py::test_b`."""
    return str(argument).split("::", 1)[0]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Sample data sets next to the checkout; tests that need them are skipped without them."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no sample data at {folder}")
    return folder


@pytest.fixture
def torch_reference(request: pytest.FixtureRequest) -> dict[str, Any]:
    """PyTorch's results in float64, as NumPy arrays: torch_reference.json, which make_torch_reference.py in the same
    folder wrote.
    """
    return _reference(request.path.with_name("torch_reference.json"))


@functools.cache
def _reference(file: Path) -> Any:
    return json.loads(file.read_text(), object_hook=_array)


def _array(entry: dict[str, Any]) -> Any:
    if entry.keys() != {"shape", "values"}:
        return entry
    return np.array(entry["values"], np.float64).reshape(entry["shape"])
