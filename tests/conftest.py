"""What every test folder shares: how many processes a run uses, and where the sample data lies."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """The full tier runs with freed memory filled with NaN, so that nothing reads what it should not.

    Ctrl-C is heard: what a script starts in the background ignores it, and programs of tests would inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if str(config.getoption("markexpr")).strip() == "full":
        os.environ.setdefault("TRAINER_POISON", "1")


def pytest_collection_finish() -> None:
    """Exempts the collected tests, half a million objects, from the garbage collections during the tests."""
    gc.freeze()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Stay in one process when files, folders or test names are asked for; a whole tier takes every core.

    Starting processes costs more than most single files do, and a debugger wants one process.
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
    """Sample data sets beside the checkout; tests that need them are skipped where they are absent."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no sample data at {folder}")
    return folder
