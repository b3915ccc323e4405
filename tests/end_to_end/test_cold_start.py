"""A first start on a terminal: until the first step there is a named phase with a clock in what is shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tui"))

import cold_start

from trainer.rundir import PhaseEvent, RunPaths, read_events

ORDER = ("config", "load", "device", "data", "model")


@pytest.mark.full
def test_every_screen_of_a_cold_start_has_a_phase_with_a_clock(tmp_path: Path) -> None:
    moments = cold_start.record_start(tmp_path)
    shown = [moment for moment in moments if cold_start.phases_in(moment.text).strip()]
    # the last screen is left out: it is read while it is drawn, as soon as a step stands in its first line
    running = [cold_start.running_phases(moment.text) for moment in shown if moment is not moments[-1]]
    assert running and all(running), running
    # within the setup, one phase may have ended, and the next one not yet begun, when a screen is drawn
    assert sum(len(here) > 1 for here in running) > len(running) / 2, running
    names = list(dict.fromkeys(name for here in running for name, _ in here if name != "setup"))
    # a phase that is over within a quarter of a second may fall between two screens
    assert names == sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER)), names
    assert {"load", "compile"} <= {name for moment in shown for name, _ in cold_start.running_phases(moment.text)}
    # a fast machine compiles everything between two screens, so how often the count moves is read from the events
    events = [record.event for record in read_events(RunPaths(tmp_path / "runs" / "cold").events)]
    compiled = {
        event.done for event in events
        if isinstance(event, PhaseEvent) and event.name == "compile" and event.done is not None
    }  # fmt: skip
    assert len(compiled) > 2, "compiling tells how far it is"
    counts = {float(count) for moment in shown for count in cold_start.COMPILED.findall(moment.text)}
    assert counts and counts <= compiled, (counts, compiled)
    for name in names:
        clocks = [clock for here in running for other, clock in here if other == name]
        assert clocks == sorted(clocks) or name in ("trace", "compile"), f"the clock of {name} runs"
