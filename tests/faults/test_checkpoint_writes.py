"""A run that is stopped at any operation of its checkpoints, by a kill or by a power cut, comes to the same bits."""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.disks import Crash, Recorder, lay_out
from tests.faults.small_run import difference, small_config, told, train
from trainer.learner.checkpoints import CheckpointKeeper, Keep, read_newest
from trainer.rundir import Event, RunPaths, create_run

CRASHES: tuple[tuple[Crash, bool], ...] = (("killed", False), ("killed", True), ("no_data", False), ("nothing", False))


def what_is_taken_up(checkpoints: Path) -> str:
    """A hash of all that the next attempt finds, after it has put the folder in order."""
    CheckpointKeeper(checkpoints, lambda event: None, Keep(1))
    digest = hashlib.sha256()
    for path in sorted(checkpoints.rglob("*")):
        digest.update(f"{path.relative_to(checkpoints)}\n".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


@pytest.mark.parametrize("saves", [(3, 3), pytest.param((1, 5), marks=pytest.mark.full)], ids=["one save", "all saves"])
def test_stopped_at_any_operation_a_run_comes_to_the_same_bits(tmp_path: Path, saves: tuple[int, int]) -> None:
    events: list[Event] = []
    whole = create_run(tmp_path, "whole")
    journal = Recorder(whole.checkpoints, mark=lambda: len(events))
    train(whole, small_config(), events.append, disk=journal).check()
    assert "best" in str(journal.asked) and ".gone" in str(journal.asked)
    ends = [n for n, (name, words) in enumerate(journal.asked) if (name, words[-1]) == ("rename", ("latest",))]
    assert len(ends) == 5
    first, last = [0, *ends][saves[0] - 1], [*ends[1:], len(journal.asked)][saves[1] - 1]
    seen, laid_out = set[str](), set[int]()
    for count in range(first, last + 1):
        for crash, half in CRASHES:
            if half and (not count or journal.asked[count - 1][0] != "put"):
                continue
            left = journal.found(count, crash, half=half)
            if (content := hash(frozenset(left.items()))) in laid_out:
                continue
            laid_out.add(content)
            killed = RunPaths(tmp_path / "killed")
            for folder in (killed.checkpoints, killed.samples, killed.reports):
                folder.mkdir(parents=True)
            lay_out(left, killed.checkpoints)
            if (found := what_is_taken_up(killed.checkpoints)) not in seen:
                seen.add(found)
                further: list[Event] = []
                train(killed, small_config(), further.append, attempt=2).check()
                where = f"{crash} after {count} operations, the last {journal.asked[count - 1]}"
                assert not difference(whole.checkpoints, killed.checkpoints), where
                before = events[: ([*journal.marks, len(events)])[count]]
                assert told(before, further) == told(events), where
            shutil.rmtree(killed.root)
    assert len(laid_out) > 100 and len(seen) >= 5


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from tests.faults.disks import Recorder
from tests.faults.small_run import small_config, train
from trainer.rundir import RunPaths

class Killed(Recorder):
    def _note(self, name, *words):
        if len(self.asked) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        super()._note(name, *words)

paths = RunPaths(Path(sys.argv[1]))
train(paths, small_config(), lambda event: None, disk=Killed(paths.checkpoints))
"""


@pytest.mark.full
def test_a_real_kill_leaves_what_the_journal_says(tmp_path: Path, repository: Path) -> None:
    """The crashes above are laid out from a journal; here the process ends by SIGKILL, with its threads."""
    whole = create_run(tmp_path, "whole")
    journal = Recorder(whole.checkpoints)
    train(whole, small_config(), lambda event: None, disk=journal).check()
    for count in range(3, len(journal.asked), len(journal.asked) // 6):
        killed = create_run(tmp_path, f"killed-{count}")
        done = subprocess.run([sys.executable, "-c", KILLED_RUN, str(killed.root), str(count)], cwd=repository)
        assert done.returncode == -signal.SIGKILL
        expected = {
            (_without_process(place), content) for place, content in journal.found(count, "killed").items() if content
        }
        found = {
            (_without_process(path.relative_to(killed.checkpoints).parts), path.read_bytes())
            for path in killed.checkpoints.rglob("*")
            if path.is_file() and path.stat().st_size
        }
        assert {place for place, _ in found} == {place for place, _ in expected}
        # Times stand in the state, and its hash in the manifest: of the rest every byte is the same.
        arrays = [{pair for pair in pairs if pair[0].endswith(".safetensors")} for pairs in (found, expected)]
        assert arrays[0] == arrays[1]


def _without_process(place: tuple[str, ...]) -> str:
    return "/".join(".".join(part.split(".")[:2]) if part.startswith(".") else part for part in place)


def test_a_newest_checkpoint_that_lost_its_data_gives_way(tmp_path: Path) -> None:
    """A disk that forgets even what was flushed: the older checkpoint is used, and the newest's file is named."""
    journal = Recorder(tmp_path / "checkpoints")
    train(RunPaths(tmp_path), small_config(), lambda event: None, disk=journal).check()
    (tmp_path / "checkpoints" / "step-10" / "training.safetensors").write_bytes(b"")
    warnings: list[str] = []
    folder, _ = read_newest(tmp_path, warnings.append)
    assert folder.name == "step-6" and "step-10/training.safetensors" in warnings[0]
