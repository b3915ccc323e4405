"""What stands directly under the package: the rooms of the architecture and nothing else."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "trainer"

ROOMS = {"engine", "learner", "metrics", "datasets", "tui", "configs", "recipes"}
BESIDE_THEM = {"rundir", "cli", "__init__.py", "py.typed"}


def test_only_the_rooms_stand_under_the_package():
    assert {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"} == ROOMS | BESIDE_THEM


def test_every_room_says_what_it_is():
    for room in sorted(ROOMS | {"rundir", "cli"}):
        text = (PACKAGE / room / "__init__.py").read_text(encoding="utf-8")
        assert text.startswith('"""'), f"trainer/{room}/__init__.py begins without a docstring"


def test_tests_mirror_the_package():
    tests = PACKAGE.parent / "tests"
    missing = [room for room in sorted(ROOMS | {"rundir", "cli"}) if not any((tests / room).rglob("test_*.py"))]
    assert missing == []
