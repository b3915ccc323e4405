"""The dashboard in a real browser: Chromium without a window, driven through its DevTools socket."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import CHROMIUM, browser
from tests.cli.conftest import Commands
from tests.tui.synthetic_run import write_run

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@contextlib.asynccontextmanager
async def other_site() -> AsyncIterator[str]:
    """The address of a site of somebody else, on this machine too: its requests carry our cookies."""

    async def answer(_: Any) -> Any:
        return aiohttp.web.Response(text="<title>other</title>", content_type="text/html")

    import aiohttp.web

    app = aiohttp.web.Application()
    app.router.add_get("/", answer)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    try:
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


def served(commands: Commands, folder: Path) -> str:
    """The address of a run that is served."""
    process = commands.start("watch", str(write_run(folder / "digits-7").root), "--web")
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_it_draws_and_keys_work(commands: Commands, tmp_path: Path) -> None:
    address = served(commands, tmp_path)
    async with browser(tmp_path / "profile") as page:
        await page.open(address)
        await page.until(lambda: "DONE" in page.received and "valid/accuracy" in page.received)
        while len((before := await page.picture()).getcolors() or ()) < 32:  # letters and lines, smoothed
            pass
        await page.press("7")
        await page.until(lambda: "config.yaml:1:1" in page.received)
        while (await page.picture()).tobytes() == before.tobytes():
            pass


async def test_a_wrong_token_and_another_site_are_refused(commands: Commands, tmp_path: Path) -> None:
    address = served(commands, tmp_path)
    base, _, _ = address.partition("?")
    socket = f"ws{base.removeprefix('http')}ws"
    connects = (
        f"new Promise(told => {{ const s = new WebSocket('{socket}'); "
        "s.onopen = () => told('opened'); s.onerror = () => told('refused') })"
    )
    async with browser(tmp_path / "profile") as page, other_site() as other:
        await page.open(f"{base}?token=wrong")
        assert "invalid token" in await page.run("document.body.innerText")
        await page.open(address)  # which leaves a cookie
        await page.until(lambda: "DONE" in page.received)
        assert await page.run(connects) == "opened", "from its own page"
        await page.open(other)
        assert await page.run(connects) == "refused"
        fetched = f"fetch('{address}', {{credentials: 'include'}}).then(answer => answer.status, error => 'refused')"
        assert await page.run(fetched) == "refused"
