"""Damage to a checkpoint: always noticed, the file is named, and the checkpoint before is taken up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS / "workloads")]

from damaged import WAYS, Damage  # noqa: E402


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.full)])
def test_each_damage_is_noticed_by_name_and_the_checkpoint_before_is_read(tmp_path: Path, count: int) -> None:
    damage = Damage(tmp_path)
    assert [problem for problem in (damage.once() for _ in range(count)) if problem] == []
    assert len(WAYS) == 9
