"""A run of another project's suite that did not run its tests is no result."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from array_api import run_pytest


@pytest.mark.full
def test_a_suite_whose_files_are_missing_or_not_importable_ends_with_3(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import missing_module\n", encoding="utf-8")
    for file in ("test_missing.py", "test_broken.py"):
        with pytest.raises(SystemExit) as ended:
            run_pytest([file], tmp_path, {})
        assert ended.value.code == 3
