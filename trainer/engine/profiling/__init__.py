"""Profiles: where the time of a step goes, launch by launch, and how far each is from what the machine can do."""

from trainer.engine.profiling.measure import profile
from trainer.engine.profiling.report import Profile
from trainer.engine.profiling.rows import Row

__all__ = ["Profile", "Row", "profile"]
