"""Changes configurations at random, and checks that reading each soon gives a config, or errors with their locations.

A mutation that must be refused specifies the line of the error. Others may be valid, but never cause a traceback.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness import checkout_environment

from trainer import TrainerError
from trainer.configs import dump_resolved, load

SECONDS = 2.0
"""Maximum CPU time of one configuration, in one process or by the command, at any load of the machine."""
LONGEST_MESSAGE = 60_000
"""Maximum characters of a message: twenty errors of at most 2,000 each, a count, and a margin."""

BASE = """\
extends: digits
seed: 3
data:
  batch_size: 32
  prefetch: 2
optimizer:
  name: adamw
  learning_rate: 0.01
schedule:
  name: cosine
  warmup_steps: 10
train:
  epochs: 2
  log_every_steps: 5
metrics:
  train: [accuracy]
  valid: [accuracy, f1]
checkpoint:
  keep_last: 1
options:
  shift: 2
"""
NUMBER = re.compile(r"^( *)(seed|batch_size|prefetch|warmup_steps|epochs|log_every_steps|keep_last|shift): .*$")


@dataclass
class Mutant:
    """A changed configuration: its text, command-line arguments, and the line of the error that it must cause (0: it
    may be valid; -1: any line)."""

    text: str
    words: list[str] = field(default_factory=list)
    line: int = 0


Way = Callable[[random.Random], Mutant]


def _numbered(text: str, chance: random.Random, value: str) -> tuple[str, int]:
    """Returns the text with the value of one integer field replaced, and the line of the field."""
    lines = text.splitlines()
    at = chance.choice([number for number, line in enumerate(lines) if NUMBER.match(line)])
    lines[at] = NUMBER.sub(lambda found: f"{found[1]}{found[2]}: {value}", lines[at])
    return "\n".join(lines) + "\n", at + 1


def _long_integer(chance: random.Random) -> Mutant:
    digits = chance.choice((309, 4299, 4300, 4301, 20_000, chance.randint(309, 100_000)))
    sign = chance.choice(("", "-", "+"))
    value = chance.choice((sign + "9" * digits, "0x" + "f" * digits, "0o" + "7" * digits, "1_0" * (digits // 2)))
    return Mutant(*_numbered_mutant(chance, value))


def _numbered_mutant(chance: random.Random, value: str) -> tuple[str, list[str], int]:
    text, line = _numbered(BASE, chance, value)
    return text, [], line


def _out_of_bounds(chance: random.Random) -> Mutant:
    value = chance.choice(("-1", "1e400", "1.5", "[1]", "{a: 1}", "true", "'7'", str(-(10 ** chance.randint(1, 300)))))
    return Mutant(*_numbered_mutant(chance, value))


def _any_integer(chance: random.Random) -> Mutant:
    text, _ = _numbered(BASE, chance, str(chance.randint(0, 10 ** chance.randint(0, 308))))
    return Mutant(text)


def _unknown_keys(chance: random.Random) -> Mutant:
    count = chance.choice((1, 10, 100, 1000, chance.randint(1, 3000), chance.randint(1, 20_000)))
    lines = BASE.splitlines()
    heads = [number for number, line in enumerate(lines) if line.endswith(":")]
    at = chance.choice(heads) + 1
    added = [f"  unknown{number}: {number}" for number in range(count)]
    first = at + 1 if count < 19_900 else 0  # too many values for a file
    return Mutant("\n".join([*lines[:at], *added, *lines[at:]]) + "\n", line=first)


def _escapes(chance: random.Random) -> Mutant:
    word = chance.choice(
        ('"\\e[31m\\a"', '"\\ud800"', '"\\udfff"', '"\\x00"', '"\\u202e"', '"\\x9b2J"', '"\\U0010ffff"')
    )
    if chance.random() < 0.5:
        text, line = _numbered(BASE, chance, word)
        return Mutant(text, line=line)
    return Mutant(f"{BASE}{word}: 1\n", line=BASE.count("\n") + 1)


def _surrogates(chance: random.Random) -> Mutant:
    key = chance.choice(("seed", "name", "train.epochs", "options.shift", "a\udcffb", "data.root", "\ud800"))
    return Mutant(BASE, [f"{key}={chance.choice(('', 'a', '1'))}\udcff"], line=-1)


def _anchors(chance: random.Random) -> Mutant:
    kind, line = chance.randrange(5), BASE.count("\n") + 1
    if kind == 0:
        return Mutant(f"{BASE}x: &x [*x]\n", line=line)
    if kind == 1:
        levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, chance.randint(5, 9)))
        return Mutant(f"{BASE}a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n{levels}", line=0)
    if kind == 2:
        return Mutant(f"{BASE}x: *nothing\n", line=line)
    if kind == 3:
        merged = ", ".join(["*b"] * chance.randint(1, 5000))
        return Mutant(f"{BASE}b: &b {{u: 1}}\nmodel:\n  <<: [{merged}]\n", line=line)
    return Mutant(f"{BASE}x: !!python/object/apply:os.system ['touch MARKER']\n", line=line)


def _damaged(chance: random.Random) -> Mutant:
    content = bytearray(BASE.encode())
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(content))
        way = chance.randrange(3)
        if way == 0:
            content[at] = chance.randrange(256)
        elif way == 1:
            del content[at : at + chance.randint(1, 30)]
        else:
            content[at:at] = chance.choice((b"[", b"{", b": ", b"\n- ", b"\t", b"'", b"&a ", b"*a", b"\xff", b"\x00"))
    return Mutant(content.decode("utf-8", "surrogateescape"))


def _deep(chance: random.Random) -> Mutant:
    return Mutant(f"{BASE}x: {chance.choice('[{') * chance.choice((100, 5000, 50_000))}\n", line=-1)


def _overridden(chance: random.Random) -> Mutant:
    number = "9" * chance.choice((5, 400, 4301))
    word = chance.choice((f"seed={number}{'9' * 400}", f"options.x[{number}]=1", f"{'a.' * 200}b=1", "[0]=1", "a..b=1",
                          "=1", "train.epochs=[" + "1," * 1000 + "]", "seed={" , "train=1", "optimizer.name=1e309",
                          "data.root=/dev/zero", "optimizer.learning_rate=1e308", "threads=100000"))  # fmt: skip
    return Mutant(BASE, [word], line=-1)


WAYS: tuple[Way, ...] = (
    _long_integer, _out_of_bounds, _any_integer, _unknown_keys, _escapes, _surrogates, _anchors, _damaged, _deep,
    _overridden,
)  # fmt: skip


class Mutants:
    """Writes changed configurations below `folder` and reads them; `seed` decides the changes."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._file, self._random = folder / "config.yaml", random.Random(seed)

    def once(self, *, by_command: bool) -> str:
        """Reads one more configuration; returns the problem in words, or "" if there is none."""
        way = self._random.choice(WAYS)
        mutant = way(self._random)
        self._file.write_bytes(mutant.text.encode("utf-8", "surrogateescape"))
        started = sum(os.times()[:4])
        code, said = self._command(mutant) if by_command else self._here(mutant)
        seconds = sum(os.times()[:4]) - started
        problem = _problem(mutant, code, said, seconds)
        return f"{way.__name__} {mutant.words}: {problem}" if problem else ""

    def _here(self, mutant: Mutant) -> tuple[int, str]:
        try:
            loaded = load(str(self._file), mutant.words)
            dump_resolved(loaded)
        except TrainerError as error:
            return 2, f"error: {error}"
        except Exception as error:
            return 1, f"Traceback: {type(error).__name__}: {error}"
        return 0, ""

    def _command(self, mutant: Mutant) -> tuple[int, str]:
        command = [sys.executable, "-P", "-m", "trainer.cli", "check", str(self._file), *mutant.words]
        done = subprocess.run(
            [os.fsencode(word) if "\ud800" not in word else word.encode("utf-8", "surrogatepass") for word in command],
            env=checkout_environment(), capture_output=True, check=False,
        )  # fmt: skip
        shown = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
        if any(ord(character) < 32 and character not in "\n\t" for character in shown):
            return 1, f"a raw control character is printed: {shown[:300]!r}"
        return done.returncode, shown


def _problem(mutant: Mutant, code: int, said: str, seconds: float) -> str:
    if "Traceback" in said or code not in (0, 2):
        return f"{code}: {said[-500:]}"
    if seconds > SECONDS:
        return f"took {seconds:.2f} s of processor time"
    if len(said) > LONGEST_MESSAGE:
        return f"a message of {len(said)} characters"
    if mutant.line and code != 2:
        return "was not refused"
    if mutant.line > 0 and f"config.yaml:{mutant.line}:" not in said:
        return f"was not refused at line {mutant.line}: {said[:300]}"
    return ""
