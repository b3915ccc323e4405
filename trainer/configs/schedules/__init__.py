"""`schedule:` the learning rate over the run, as a factor of the optimizer's. Each class is a section and its formula.

To add one, write a class in a file here and a row in table.py.
"""

from trainer.configs.schedules.custom import OwnSchedule
from trainer.configs.schedules.schedule import Schedule, Span, Stretch, every_schedule
from trainer.configs.schedules.table import SCHEDULES, ScheduleConfig

__all__ = ["SCHEDULES", "OwnSchedule", "Schedule", "ScheduleConfig", "Span", "Stretch", "every_schedule"]
