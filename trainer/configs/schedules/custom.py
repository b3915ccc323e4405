"""Custom schedules, from a user's file."""

from typing import Any

from pydantic import Field

from trainer.configs.custom_class import PATTERN, names_own_class, own_class
from trainer.configs.schedules.schedule import Schedule, Stretch


class OwnSchedule(Schedule):
    """A custom schedule: a class derived from trainer.configs.Schedule."""

    name: str = Field(
        pattern=PATTERN, description="Schedule class, as ./file.py:Class, relative to the YAML file that sets it."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Values of the schedule's fields.")

    @staticmethod
    def matches(value: dict[str, Any]) -> bool:
        """Whether a mapping names a custom class."""
        return names_own_class(value.get("name"))

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        return self.resolved().shape(time, stretch, xp)

    def parts_within(self) -> tuple[Schedule, ...]:
        return (self.resolved(),)

    def resolved(self) -> Schedule:
        """The custom schedule with its options.

        Raises:
            ValueError: the file, the class or its options are invalid; exceptions of the user's file pass through.
        """
        kind = own_class(self.name)
        if not issubclass(kind, Schedule):
            raise ValueError(f"{self.name} does not derive from trainer.configs.Schedule")
        made: Schedule = kind.model_validate(self.options, strict=False)
        return made

    def __hash__(self) -> int:
        return hash((self.name, repr(sorted(self.options.items()))))
