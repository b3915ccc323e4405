"""`trainer profile`: a table, a trace and JSON from the real command, and nothing written that was not asked for."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Commands
from trainer.cli import main


@pytest.mark.full
def test_a_recipe_is_profiled_and_leaves_no_run(commands: Commands) -> None:
    before = set(commands.folder.iterdir())
    done = commands.finish(
        "profile", "digits", "data.batch_size=16", "--steps", "2", "--warm-up", "1", "--json", "--trace", "step.json"
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["steps"] == 2 and data["seconds"] > 0 and data["peaks"]["float32"] > 0
    assert any(launch["kernel"] == "convolution" and launch["module"] for launch in data["launches"])
    events = json.loads((commands.folder / "step.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event.get("cat") == "call"] == ["call 0", "call 1"]
    assert set(commands.folder.iterdir()) - before == {commands.folder / "step.json"}
    table = commands.finish("profile", "digits", "data.batch_size=16", "--steps", "1", "--by", "module", "--rows", "4")
    lines = table.stdout.splitlines()
    assert lines[0].startswith("module") and max(map(len, lines)) <= 80 and "one step" in table.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no config given"),
        (["digits", "--steps", "0"], "at least 1"),
        (["digits", "--rows", "many"], "invalid int value"),
        (["digits", "device=reference"], "expected: device: cpu"),
        (["digits", "--trace", "no/such/folder.json"], "the folder doesn't exist"),
        (["digits", "data.batch_sice=3"], "did you mean 'batch_size'?"),
        (["digits", "config.yaml"], "more than one config"),
    ],
)
def test_mistakes_are_told_before_anything_is_loaded(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *words]) == 2
    output = capsys.readouterr()
    assert message in output.err and "phase=" not in output.err and not output.out
