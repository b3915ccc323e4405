"""The names in code, decoded from its instructions, against those that Python's own disassembler gives."""

from __future__ import annotations

import argparse
import dis
import typing
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

import pytest

from trainer.engine import tensor
from trainer.engine.tracing.names import names_of
from trainer.learner import tally


def codes(module: ModuleType) -> Iterator[CodeType]:
    for value in vars(module).values():
        members = vars(value).values() if isinstance(value, type) else [value]
        yield from (member.__code__ for member in members if isinstance(member, FunctionType))


def disassembled(code: CodeType, *operations: str) -> set[str]:
    found = {each.argval for each in dis.get_instructions(code) if each.opname in operations}
    nested = (each for each in code.co_consts if isinstance(each, CodeType))
    return found.union(*(disassembled(each, *operations) for each in nested))


@pytest.mark.parametrize("module", [tensor, tally, argparse, typing], ids=lambda module: module.__name__)
def test_names_are_those_of_the_disassembler(module: ModuleType) -> None:
    found = list(codes(module))
    assert len(found) > 5
    for code in found:
        names = names_of(code)
        assert set(names.globals) == disassembled(code, "LOAD_GLOBAL", "LOAD_NAME"), code
        assert names.stored == disassembled(code, "STORE_ATTR"), code
        assert set(names.imports) == disassembled(code, "IMPORT_NAME"), code
        attributes = disassembled(code, "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM")
        assert attributes <= names.attributes, code
