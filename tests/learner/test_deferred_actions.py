"""What waits for a step: done in its order, up to the first verdict."""

from __future__ import annotations

from trainer.learner import TrainingFailure, Verdict
from trainer.learner.deferred_actions import DeferredActions


class Running:
    """The end of a run that the test decides on."""

    is_ready = False


def test_a_verdict_stays_until_it_is_cleared_and_nothing_is_done_meanwhile() -> None:
    late, run, done, verdict = DeferredActions(), Running(), list[str](), Verdict(TrainingFailure("bad"))
    late.submitted(run)  # type: ignore[arg-type]
    assert late.add(lambda: done.append("first")) is None and not done
    late.add(lambda: verdict)
    late.add(lambda: done.append("after"))
    late.submitted(Running())  # type: ignore[arg-type]
    assert late.verdict is late.settle() is verdict and done == ["first"]
    run.is_ready = True
    assert late.add(lambda: done.append("later")) is verdict and done == ["first"]
    late.clear()
    assert late.add(lambda: done.append("again")) is None and done == ["first", "again"]
    assert late.add(lambda: verdict) is verdict
