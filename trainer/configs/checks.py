"""Rules that relate values, each of them valid on its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from trainer.configs.problems import KeyPath
from trainer.configs.run import RunConfig
from trainer.configs.schedules import OwnSchedule, Schedule
from trainer.configs.section import Section

Finding = tuple[KeyPath, str, tuple[KeyPath, ...]]
"""The path of the invalid value, why it is invalid, and every path that the rule depends on."""


LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def check(config: RunConfig) -> Iterator[Finding]:
    """Yields a finding for every rule that a configuration breaks."""
    for rule in _RULES:
        yield from rule(config)


def sections_of(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, BaseModel]]:
    """Yields every section of a configuration with its path, the configuration itself first."""
    if isinstance(value, BaseModel):
        yield path, value
        for name, field in type(value).model_fields.items():
            yield from sections_of(getattr(value, name), (*path, field.alias or name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from sections_of(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from sections_of(item, (*path, index))


def _groups(config: RunConfig) -> Iterator[Finding]:
    """Checks that each group of exclusive keys has exactly one, or at most one, key set."""
    for path, section in sections_of(config):
        required = getattr(section, "exactly_one_of", ())
        for group in (*required, *getattr(section, "at_most_one_of", ())):
            given = [key for key in group if getattr(section, key) is not None]
            about = tuple((*path, key) for key in group)
            if len(given) > 1:
                yield (*path, given[-1]), f"set together with {_words(given[:-1])}; expected only one of them", about
            elif not given and group in required:
                yield path or (group[0],), f"one of {_words(group)} is required", about


def _data_has_a_place(config: RunConfig) -> Iterator[Finding]:
    """Checks that `data.root` is set: paths of a reader are relative to it."""
    if config.data.reader is not None and config.data.root is None:
        yield ("data", "reader"), "'data.root', the folder of the data, is not set; a reader needs it", (("data",),)


def _data_is_in_a_folder(config: RunConfig) -> Iterator[Finding]:
    """Checks that `data.root` is a folder if it exists; it may also be created later or on another machine."""
    root = config.data.root
    if root is not None and os.path.exists(root) and not os.path.isdir(root):
        yield ("data", "root"), f"expected a folder, found {_kind_of_file(root)}", (("data", "root"),)


def _kind_of_file(path: Path) -> str:
    return "a file" if path.is_file() else "a device, a socket or a pipe"


def _numbers_have_a_size(config: RunConfig) -> Iterator[Finding]:
    """Checks that integers fit 64 bits and other numbers fit float32."""
    for path, section in sections_of(config):
        for name, field in type(section).model_fields.items():
            value, here = getattr(section, name), (*path, field.alias or name)
            if isinstance(value, int) and abs(value) >= 2**63:
                yield here, f"expected a number below 2^63 in size, found {value}", (here,)
            elif isinstance(value, float) and abs(value) > LARGEST_FLOAT32:
                yield here, f"expected a number of at most {LARGEST_FLOAT32:.8g} in size, found {value}", (here,)


def _it_ends(config: RunConfig) -> Iterator[Finding]:
    """Checks that the length of the run is set, and that schedules which end with the run know the number of steps."""
    train, about = config.train, (("train",),)
    if train.epochs is None and train.steps is None:
        if train.minutes is None:
            yield ("train",), "one of 'epochs', 'steps' and 'minutes' is required", about
            return
        for path, section in sections_of(config):
            if isinstance(section, Schedule) and section.ends_with_the_run:
                key = "warmup_fraction" if section.warmup_fraction else "name"
                message = (
                    "needs the number of steps of the run, which 'minutes' alone does not give: set 'epochs' or 'steps'"
                )
                if section.warmup_fraction:
                    message = (
                        "needs the number of steps of the run, which 'minutes' alone does not give: set 'epochs', "
                        "'steps' or 'warmup_steps'"
                    )
                yield (*path, key), message, (path, ("train",))


def _sections_agree_with_themselves(config: RunConfig) -> Iterator[Finding]:
    """Checks that the values of each section do not contradict each other."""
    for path, section in sections_of(config):
        for keys, message, about in section.contradictions() if isinstance(section, Section) else ():
            yield (*path, *keys), message, tuple((*path, key) for key in about)


def _own_code_loads(config: RunConfig) -> Iterator[Finding]:
    """Checks that custom schedules load; their files import nothing heavy."""
    for path, section in sections_of(config):
        if isinstance(section, OwnSchedule):
            try:
                section.resolved()
            except ValidationError as error:
                for item in error.errors(include_url=False):
                    here = (*path, "options", *item["loc"])
                    yield here, item["msg"][0].lower() + item["msg"][1:], (path,)
            except Exception as error:  # a user's file: whatever it raises is reported
                yield (*path, "name"), f"{type(error).__name__}: {error}", ((*path, "name"),)


def _warmup_fits(config: RunConfig) -> Iterator[Finding]:
    """Checks that the warm-up is not longer than the run, where both are counted in the same unit."""
    for path, section in sections_of(config):
        for unit in ("steps", "epochs"):
            warmup, length = getattr(section, f"warmup_{unit}", None), getattr(config.train, unit)
            if warmup is not None and length is not None and warmup > length:
                here = (*path, f"warmup_{unit}")
                yield (
                    here,
                    f"a warm-up of {warmup} {unit} is longer than the run of {length} {unit}",
                    (here, ("train", unit)),
                )


def _others_are_exact(config: RunConfig) -> Iterator[Finding]:
    """Checks that the reference device has exact numerics, and that only the cpu device sums bfloat16 by tiles."""
    device = config.device.partition(":")[0]
    instead = (
        "the reference device is always exact" if device == "reference" else "on GPUs numerics.class=fast is faster"
    )
    for key, value, plain, devices in (
        ("class", config.numerics.class_, "exact", ("cpu", "cuda")),
        ("bfloat16", config.numerics.bfloat16, "pairs", ("cpu",)),
    ):
        if device not in devices and value != plain:
            where = "device" if len(devices) == 1 else "devices"
            here = ("numerics", key)
            yield here, f"'{value}' works on the {' and '.join(devices)} {where} only; {instead}", (here, ("device",))


_RULES: tuple[Callable[[RunConfig], Iterator[Finding]], ...] = (
    _groups,
    _data_has_a_place,
    _data_is_in_a_folder,
    _numbers_have_a_size,
    _it_ends,
    _sections_agree_with_themselves,
    _own_code_loads,
    _warmup_fits,
    _others_are_exact,
)


def _words(keys: Any) -> str:
    return " and ".join(f"'{key}'" for key in keys)
