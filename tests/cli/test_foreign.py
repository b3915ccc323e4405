"""What people type from other tools is answered with what it is called here."""

from __future__ import annotations

import re

import pytest

from tests.tiers import tiered
from trainer.cli import main
from trainer.cli.verbs import VERBS
from trainer.configs.foreign import COMMANDS, KEYS, SECTIONS

UNKNOWN = "unknown key, the equivalent is "
PRECISION = "train.precision: float32, bfloat16 or float16"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("init", "mine"), "trainer new mine"),
        (("train", "digits", "train.epochs=3"), "trainer run digits train.epochs=3"),
        (("fit", "my config.yaml"), "trainer run 'my config.yaml'"),
        (("train",), "trainer run CONFIG_OR_RECIPE"),
        (("test", "digits-2"), "trainer evaluate digits-2"),
        (("val",), "trainer evaluate RUN"),
        (("eval", "digits-2"), "trainer evaluate digits-2"),
        (("infer", "digits-2", "a.png"), "trainer predict digits-2 a.png"),
        (("resume", "digits-2"), "trainer run --resume digits-2"),
        (("ls",), "trainer list` for recipes, `trainer runs` for runs"),
        (("copy", "digits"), "trainer new DIR --recipe digits"),
        (("tune", "digits"), "trainer autotune digits"),
    ],
)
def test_a_command_of_another_tool_is_answered_with_ours(
    words: tuple[str, ...], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = said(capsys, *words)
    assert error.startswith(f"error: unknown command: {words[0]}\n  The equivalent is `{command}")


OVERRIDES = [
    ("lr=0.1", "optimizer.learning_rate"),
    ("lr0=0.01", "optimizer.learning_rate"),
    ("epochs=3", "train.epochs"),
    ("batch=16", "data.batch_size"),
    ("batch_size=16", "data.batch_size"),
    ("imgsz=640", "`size` of a resize or crop in data.transforms"),
    ("fp16=true", PRECISION),
    ("half=true", PRECISION),
    ("amp=true", PRECISION),
    ("cuda=true", "device: cuda"),
    ("workers=4", "data.workers"),
    ("num_workers=4", "data.workers"),
    ("weight_decay=0.1", "optimizer.weight_decay"),
    ("patience=5", "early_stopping.patience"),
    ("weights=a.pt", "model.weights"),
    ("resume=true", "--resume RUN"),
    ("train.lr=0.1", "optimizer.learning_rate"),
    ("optimizer.lr=0.1", "optimizer.learning_rate"),
    ("optimizers.a={name: adam, lr: 0.1}", "optimizers.a.learning_rate"),
]


@pytest.mark.parametrize(("override", "key"), tiered(OVERRIDES, OVERRIDES[::5]))
def test_a_key_of_another_tool_is_answered_with_ours(
    override: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = override.partition("=")[0] + (".lr" if "{" in override else "")
    assert said(capsys, "run", "digits", override) == f"error: <cli> {path}: {UNKNOWN}{key}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("digits", "device=0"), "<cli> device: expected 'cpu', 'cuda', 'cuda:N' or 'reference', found 0"),
        (("digits", "device=cuda0"), "'cuda:N' or 'reference', found 'cuda0', did you mean 'cuda'?"),
        (("digits", "data=photos"), "found the text 'photos'; a single word belongs in data.root"),
        (("digits", "optimizer=adam"), "found the text 'adam'; a single word belongs in optimizer.name"),
        (("digits", "model=a.pt"), "a single word belongs in model.weights"),
        (("digits", "fp16"), "fp16 is neither a config nor key=value\n  The equivalent is train.precision"),
        (("digits", "--epochs", "3"), "unrecognized arguments: --epochs"),
        (("digits", "--epochs", "3"), "\n  The equivalent is train.epochs, without dashes"),
        (("digits", "--batch-size=4"), "The equivalent is data.batch_size, without dashes"),
        (("digits", "--nonsense"), "Set values as key=value"),
    ],
)
def test_other_habits_are_answered_too(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in said(capsys, "run", *words)


def test_the_tables_name_keys_that_exist() -> None:
    import json

    from trainer.configs import json_schema

    text = json.dumps(json_schema())
    for ours in (*KEYS.values(), *SECTIONS.values()):
        for path in re.findall(r"\b(?:train|data|optimizer|schedule|model|checkpoint|early_stopping)\.\w+", ours):
            assert f'"{path.rpartition(".")[2]}":' in text, ours


def test_a_word_of_another_tool_is_no_verb_and_names_one() -> None:
    assert not {*COMMANDS} & {*VERBS}
    for word, (command, _) in COMMANDS.items():
        assert command.split()[1].rstrip("`") in {verb.split()[0] for verb in VERBS}, word
