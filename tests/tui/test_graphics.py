"""Pictures in pixels: what is written is decoded again, by a decoder of the test's own or by Pillow."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
import synthetic_run
from conftest import Clock, dashboard, settle
from PIL import Image

from trainer import TrainerError
from trainer.tui.box import FRAME_HEIGHT, FRAME_WIDTH
from trainer.tui.forms import choose_form
from trainer.tui.graphics import Hanging, Placed, kitty, sixel
from trainer.tui.panels.samples import grid_for
from trainer.tui.pixel_pictures import cell_size


def decoded_sixel(text: str) -> np.ndarray:
    """uint8 [H, W, 3] of a sixel picture, drawn as a terminal does it: registers, a column, a row of six pixels."""
    found = re.fullmatch(r'\x1bP0;1q"1;1;(\d+);(\d+)(.*)\x1b\\', text, re.DOTALL)
    assert found is not None
    width, height = int(found[1]), int(found[2])
    pixels = np.full((-(-height // 6) * 6, width, 3), 255, np.uint8)
    registers: dict[int, tuple[int, ...]] = {}
    colour, x, y = 0, 0, 0
    token = re.compile(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|(\$)|(-)")
    at = 0
    while at < len(found[3]):
        match = token.match(found[3], at)
        assert match is not None, found[3][at : at + 20]
        at = match.end()
        register, red, green, blue, chosen, count, repeated, single, back, down = match.groups()
        if register is not None:
            registers[int(register)] = tuple(round(int(part) * 2.55) for part in (red, green, blue))
        elif chosen is not None:
            colour = int(chosen)
        elif back:
            x = 0
        elif down:
            x, y = 0, y + 6
        else:
            for _ in range(int(count or 1)):
                for bit in range(6):
                    if (ord(repeated or single) - 63) >> bit & 1:
                        pixels[y + bit, x] = registers[colour]
                x += 1
            assert x <= width
    return pixels[:height]


def decoded_kitty(text: str) -> tuple[dict[str, str], np.ndarray]:
    """The keys of the first chunk and the picture."""
    chunks = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", text)
    assert "".join(f"\x1b_G{keys};{data}\x1b\\" for keys, data in chunks) == text
    assert [keys.endswith("m=1") for keys, _ in chunks] == [True] * (len(chunks) - 1) + [False]
    assert all(len(data) <= 4096 for _, data in chunks)
    file = base64.standard_b64decode("".join(data for _, data in chunks))
    return dict(pair.split("=") for pair in chunks[0][0].split(",")), np.asarray(Image.open(io.BytesIO(file)))


@pytest.mark.parametrize("size", [(6, 8), (13, 31), (1, 1), (48, 64)])
def test_a_sixel_picture_of_few_colours_is_the_picture(size: tuple[int, int]) -> None:
    colours = np.array([[0, 0, 0], [255, 255, 255], [204, 51, 102], [51, 153, 255]], np.uint8)  # whole percents
    image = colours[np.random.default_rng(0).integers(0, 4, size)]
    np.testing.assert_array_equal(decoded_sixel(sixel(image)), image)


def test_a_sixel_picture_of_many_colours_is_near_the_picture() -> None:
    y, x = np.mgrid[0:60, 0:80]
    image = np.stack([3 * x, 4 * y, 2 * x + y], axis=-1).astype(np.uint8)
    error = decoded_sixel(sixel(image)).astype(float) - image
    assert np.sqrt((error**2).mean()) < 12


def test_a_kitty_picture_is_the_picture() -> None:
    image = np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8)
    keys, pixels = decoded_kitty(kitty(image, 7, 20, 9))
    np.testing.assert_array_equal(pixels, image)
    assert keys.items() >= {"a": "T", "f": "100", "i": "7", "c": "20", "r": "9", "C": "1", "q": "2"}.items()


def placed(key: str, column: int, row: int) -> Placed:
    return Placed((key,), column, row, 10, 5, np.full((8, 8, 3), len(key), np.uint8))


def test_only_what_changed_is_sent_and_what_is_gone_is_deleted() -> None:
    hanging = Hanging("kitty")
    first = hanging.show([placed("a", 2, 3), placed("b", 20, 3)])
    assert first.count("a=T") == 2 and first.startswith("\x1b7\x1b[4;3H\x1b_G") and first.endswith("\x1b8")
    assert hanging.show([placed("a", 2, 3), placed("b", 20, 3)], [(0, 0, 99, 99)]) == ""
    second = hanging.show([placed("a", 2, 3), placed("c", 20, 3)])
    assert second.count("a=T") == 1 and re.findall(r"a=d,d=I,i=(\d+)", second) == ["2"]
    assert sorted(re.findall(r"a=d,d=I,i=(\d+)", hanging.clear())) == ["1", "3"]
    assert hanging.clear() == "" and "a=T" in hanging.show([placed("a", 2, 3)])


def test_a_sixel_picture_that_text_went_over_is_sent_again() -> None:
    hanging = Hanging("sixel")
    wanted = [placed("a", 2, 3), placed("b", 20, 3)]
    assert hanging.show(wanted).count("\x1bP") == 2
    assert hanging.show(wanted, [(0, 2, 99, 1)]) == ""
    assert hanging.show(wanted, [(0, 3, 3, 1)]).count("\x1bP") == 1
    assert [picture.key for picture in hanging.stale([wanted[1]])] == [("a",)]
    assert hanging.show([wanted[1]]) == "" and hanging.clear() == ""


@pytest.mark.parametrize(
    ("wanted", "environment", "form", "says"),
    [
        ("half", {}, "half", ""), (None, {}, "half", ""), ("kitty", {"TERM": "xterm"}, "kitty", ""),
        ("sixel", {"TMUX": "1"}, "sixel", ""), (None, {"TRAINER_PICTURES": "sixel"}, "sixel", ""),
        ("half", {"TRAINER_PICTURES": "sixel"}, "half", ""), ("kitty", {"TMUX": "1"}, "half", "tmux"),
        ("sixel", {"TEXTUAL_DRIVER": "x"}, "half", "browser"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_said(wanted: str | None, environment: dict[str, str], form: str, says: str) -> None:
    chosen, told = choose_form(wanted, environment)
    assert chosen == form and says in told and bool(told) == bool(says)


def test_a_form_that_is_none_is_the_users_mistake() -> None:
    with pytest.raises(TrainerError, match="unknown form of pictures"):
        choose_form(None, {"TRAINER_PICTURES": "ascii"})


async def test_pictures_hang_on_the_terminal_while_their_screen_is_in_front(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = synthetic_run.write_run(tmp_path / "digits-7", has_shown=True)
    app = dashboard(paths, clock, pictures="kitty")
    async with app.run_test(size=(120, 40)) as pilot:
        written: list[str] = []
        monkeypatch.setattr(app._driver, "write", written.append)

        async def after(*keys: str) -> tuple[int, int]:
            """How many pictures were sent, and how many deleted, after some keys."""
            written.clear()
            await pilot.press(*keys)
            for _ in range(3):
                text = await settle(app, pilot)
            assert "▀" not in text or app._scope() == "overview"  # small pictures are half-blocks
            told = "".join(written)
            return told.count("a=T"), told.count("a=d,d=I")

        assert await after() == (0, 0)
        assert await after("3") == (2, 0)
        panel = app.screen.query_one("#samples")
        _, pixels = decoded_kitty(re.search(r"H(\x1b_G.*?)\x1b8", "".join(written), re.DOTALL)[1])  # type: ignore[index]
        width, height = cell_size()
        columns, rows = grid_for(3, *panel.drawn_size, 64 / 48)
        room = panel.drawn_size[0] // columns - FRAME_WIDTH, panel.drawn_size[1] // rows - FRAME_HEIGHT - 1  # a caption
        room = room[0] * width, room[1] * height
        assert pixels.shape[1] == min(room[0], room[1] * 64 // 48) and pixels.shape[0] == pixels.shape[1] * 48 // 64
        assert await after("tab") == (0, 0), "what is chosen is in the text alone"
        assert await after("left") == (2, 2), "another step has other pictures"
        assert await after("b") == (2, 2), "boxes are drawn into what is sent"
        assert await after("question_mark") == (0, 2), "the help would be below them"
        assert await after("escape") == (2, 0)
        assert await after("1") == (0, 2)
        assert await after("3") == (2, 0)


async def test_a_sixel_picture_is_sent_again_where_text_was_written_over_it(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = synthetic_run.write_run(tmp_path / "digits-7", has_shown=True)
    app = dashboard(paths, clock, pictures="sixel")
    async with app.run_test(size=(120, 40)) as pilot:
        written: list[str] = []
        monkeypatch.setattr(app._driver, "write", written.append)
        # another one that is chosen changes borders alone; the help is written over both
        for key, sent in (("3", 2), ("tab", 0), ("question_mark", 0), ("escape", 2), ("a", 0), ("left", 2)):
            written.clear()
            await pilot.press(key)
            for _ in range(3):
                await settle(app, pilot)
            assert "".join(written).count("\x1bP0;1q") == sent, key


def test_a_sixel_picture_is_gone_where_a_cell_of_it_was_overwritten() -> None:
    picture = Placed(("a",), 2, 3, 4, 2, np.zeros((12, 8, 3), np.uint8))
    hanging = Hanging("sixel")
    for overwritten, sent in (([], 1), ([], 0), ([(5, 4, 1, 1)], 1), ([(6, 4, 9, 9), (0, 5, 80, 1)], 0)):
        assert hanging.show([picture], overwritten).count("\x1bP0;1q") == sent
