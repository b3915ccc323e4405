"""Chromium without a window, driven through its DevTools socket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import itertools
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.cli.conftest import PATIENCE, eventually

aiohttp = pytest.importorskip("aiohttp", reason="textual-serve is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One page of the browser; see https://chromedevtools.github.io/devtools-protocol."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.received = ""

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something, and its answer; what the page's own sockets got meanwhile is kept in `received`."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while (told := await self._next()).get("id") != number:
            pass
        assert "error" not in told, told
        result: dict[str, Any] = told["result"]
        return result

    async def until(self, claim: Callable[[], bool]) -> None:
        """Listen until a claim is true."""
        while not claim():
            await self._next()

    async def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of its promise."""
        told = await self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def open(self, address: str) -> None:
        """Go to an address and wait for its document."""
        await self.ask("Page.navigate", url=address)
        while await self.run("document.readyState + location.href") != f"complete{address}":
            await asyncio.sleep(0.01)

    async def press(self, key: str) -> None:
        """A key, down and up."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" else {}
            code = ord(key.upper())
            await self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    async def picture(self) -> Image.Image:
        """What is to be seen."""
        told = await self.ask("Page.captureScreenshot")
        return Image.open(io.BytesIO(base64.b64decode(told["data"]))).convert("L")

    async def _next(self) -> dict[str, Any]:
        told: dict[str, Any] = await self._socket.receive_json(timeout=PATIENCE)
        if told.get("method") == "Network.webSocketFrameReceived":
            frame = told["params"]["response"]
            data = frame["payloadData"]
            text = base64.b64decode(data).decode("utf-8", "replace") if frame["opcode"] == 2 else data
            self.received += text
        return told


@contextlib.asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """A page of a browser of its own."""
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
    words += [f"--user-data-dir={folder}", "--window-size=1000,700", "about:blank"]
    assert CHROMIUM is not None
    process = subprocess.Popen([CHROMIUM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        told = folder / "DevToolsActivePort"
        port = eventually(lambda: told.exists() and len(told.read_text().split()) > 1 and told.read_text().split()[0])
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Network", "Runtime"):
                    await page.ask(f"{domain}.enable")
                yield page
    finally:
        process.terminate()
        process.wait()
