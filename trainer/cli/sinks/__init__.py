"""Sinks send the metrics of a run to other tools. Each one is a separate process that reads the run directory.

A sink can neither slow down nor end the training: if it fails, a warning is logged and training continues.
"""

from trainer.cli.sinks.sink import SINKS, Sink, make_sink

__all__ = ["SINKS", "Sink", "make_sink"]
