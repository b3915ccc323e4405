"""A schedule of the user's own, from a file of theirs."""

from typing import Any

from pydantic import Field

from trainer.configs.own import PATTERN, names_own_class, own_class
from trainer.configs.schedules.schedule import Schedule, Stretch


class OwnSchedule(Schedule):
    """A class derived from trainer.configs.Schedule, named as ./file.py:Class."""

    name: str = Field(pattern=PATTERN, description="The class, as ./file.py:Class.")
    options: dict[str, Any] = Field(default_factory=dict, description="Its fields.")

    @staticmethod
    def is_meant_by(value: dict[str, Any]) -> bool:
        """Whether a mapping names a class of the user's own."""
        return names_own_class(value.get("name"))

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        return self.resolved().shape(time, stretch, xp)

    def parts_within(self) -> tuple[Schedule, ...]:
        return (self.resolved(),)

    def resolved(self) -> Schedule:
        """The user's schedule with its options.

        Raises:
            ValueError: the file, the class or its options are not right; also what the user's file raises.
        """
        kind = own_class(self.name)
        if not issubclass(kind, Schedule):
            raise ValueError(f"{self.name} does not derive from trainer.configs.Schedule")
        made: Schedule = kind.model_validate(self.options, strict=False)
        return made

    def __hash__(self) -> int:
        return hash((self.name, repr(sorted(self.options.items()))))
