"""Other tools that are told of a run: each a sink, in a process beside the training that reads the run directory.

A sink can neither slow training nor end it: one that fails is told of as a warning, and training goes on.
"""

from trainer.cli.sinks.sink import SINKS, Sink, make_sink

__all__ = ["SINKS", "Sink", "make_sink"]
