"""Profiles: the time of each launch of a step, and its speed relative to the machine's peak."""

from trainer.engine.profiling.measure import profile
from trainer.engine.profiling.report import Profile
from trainer.engine.profiling.rows import Row

__all__ = ["Profile", "Row", "profile"]
