"""The helper process: a candidate that fails is answered with why, and the next one is tried as if nothing had been."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.autotune import faulty
from tests.tiers import tiered
from trainer.engine.autotune.helper import Job
from trainer.engine.autotune.process import Answer, Helper
from trainer.engine.graph import dtypes
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.lowering.launch import Tunable
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec

SPEC = MatmulSpec(dtypes.float32, 3, 5, 7, (7, 1), (5, 1), packed=False)
DEFAULT = Tunable(faulty.TEMPLATE, SPEC, defaults.choose(SPEC))
ANSWER_SECONDS = 60.0


def ask(helper: Helper, candidate: object, deadline: float = 20.0) -> Answer:
    helper.ask(Job(DEFAULT, candidate, native.host_target(), deadline))
    answer = helper.poll(ANSWER_SECONDS)
    assert answer is not None
    return answer


@pytest.fixture(scope="module")
def helper(repository: Path) -> Iterator[Helper]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository))
        process = Helper(idle=False, memory=2 << 30)
        yield process
        process.close()


@pytest.mark.parametrize("kind", tiered(faulty.REASONS, ("trap", "near write", "endless loop", "wrong result")))
def test_a_failing_candidate_is_told_of_and_the_next_one_is_tried(helper: Helper, kind: str) -> None:
    answer = ask(helper, faulty.Faulty(kind), deadline=0.5)
    assert (answer.reason, answer.code) == (faulty.REASONS[kind], b"")
    assert ask(helper, DEFAULT.parameters).reason == ""


def test_a_sound_candidate_comes_back_compiled_with_its_times(helper: Helper) -> None:
    answer = ask(helper, defaults.candidates(SPEC)[1])
    library = native.link({answer.name: answer.code})
    assert answer.reason == "" and library[answer.name]
    assert 0 < answer.seconds < 1 and 0 < answer.default_seconds < 1 and answer.processor_seconds > 0


def test_nothing_is_answered_that_was_not_asked(helper: Helper) -> None:
    assert helper.poll() is None


def test_a_helper_that_a_signal_to_the_group_has_ended_is_closed_all_the_same(helper: Helper) -> None:
    ask(helper, DEFAULT.parameters)
    process = helper._process
    assert process is not None
    os.kill(process.pid, signal.SIGTERM)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    helper.close()
    assert helper._process is None


def test_a_helper_that_is_closed_starts_again_when_it_is_asked(helper: Helper) -> None:
    helper.ask(Job(DEFAULT, faulty.Faulty("endless loop"), native.host_target(), 60.0))
    helper.close()
    assert helper.poll() is None
    assert ask(helper, DEFAULT.parameters).reason == ""
