"""In which form samples' pictures are shown: what was asked for, or what this terminal lets through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from trainer import TrainerError

Form = Literal["half", "kitty", "sixel"]
FORMS: tuple[Form, ...] = get_args(Form)

VARIABLE = "TRAINER_PICTURES"


def choose_form(wanted: str | None, environment: Mapping[str, str]) -> tuple[Form, str]:
    """What is shown, and why, where that is something else than was asked for.

    Args:
        wanted: None: what the environment's TRAINER_PICTURES says, or half-blocks.

    Raises:
        TrainerError: there is no such form.
    """
    wanted = environment.get(VARIABLE) or "half" if wanted is None else wanted
    form = next((form for form in FORMS if form == wanted), None)
    if form is None:
        raise TrainerError("no such form of pictures", where=VARIABLE, found=wanted, expected=", ".join(FORMS))
    if form != "half" and "TEXTUAL_DRIVER" in environment:
        return "half", "a browser shows pictures in half-blocks"
    if form == "kitty" and "TMUX" in environment:
        return "half", "tmux keeps kitty's pictures to itself: half-blocks here (tmux 3.4 and newer may show sixel)"
    return form, ""
