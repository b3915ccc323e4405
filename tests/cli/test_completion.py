"""`trainer completion`: what the shells offer, asked of a shell itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from trainer.cli import main
from trainer.cli.verbs import GROUPS, VERBS, verbs_in


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "trainer.bash").write_text(capsys.readouterr().out, encoding="utf-8")
    (tmp_path / "runs" / "night-2").mkdir(parents=True)
    return tmp_path / "trainer.bash"


def offered(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in ("trainer", *words))
    program = (
        f'source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _trainer; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", program], cwd=script.parent, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_verbs_and_groups_come_first(script: Path) -> None:
    assert {name for name in VERBS if " " not in name} | set(GROUPS) <= offered(script, "")
    assert offered(script, "w") == {"watch"}
    for group in GROUPS:
        assert offered(script, group, "") == set(verbs_in(group))


def test_options_recipes_and_runs_follow(script: Path) -> None:
    assert {"--plain", "--resume", "--run-dir"} <= offered(script, "run", "--")
    assert offered(script, "run", "dig") == {"digits"}
    assert offered(script, "watch", "nig") == offered(script, "runs", "rm", "nig") == {"night-2"}
    assert offered(script, "runs", "prune", "--dr") == {"--dry-run"}
    assert offered(script, "completion", "f") == {"fish"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_name_every_verb(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(word in text for verb in VERBS for word in verb.split())
    if interpreter := shutil.which(shell):
        subprocess.run([interpreter, "-n", "-c" if shell == "fish" else "-s"], input=text, text=True, check=True)
