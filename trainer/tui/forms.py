"""The form of pictures: the requested one, or the one that this terminal supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from trainer import TrainerError

Form = Literal["half", "kitty", "sixel"]
FORMS: tuple[Form, ...] = get_args(Form)

VARIABLE = "TRAINER_PICTURES"


def choose_form(requested: str | None, environment: Mapping[str, str]) -> tuple[Form, str]:
    """The form of pictures, and the reason if it is not the requested one.

    Args:
        requested: None: the value of TRAINER_PICTURES in the environment, else half-blocks.

    Raises:
        TrainerError: the form is unknown.
    """
    requested = environment.get(VARIABLE) or "half" if requested is None else requested
    form = next((form for form in FORMS if form == requested), None)
    if form is None:
        raise TrainerError("unknown form of pictures", where=VARIABLE, found=requested, expected=", ".join(FORMS))
    if form != "half" and "TEXTUAL_DRIVER" in environment:
        return "half", "a browser shows pictures in half-blocks"
    if form == "kitty" and "TMUX" in environment:
        return "half", "tmux does not pass on kitty graphics: half-blocks instead (tmux 3.4 and newer may show sixel)"
    return form, ""
