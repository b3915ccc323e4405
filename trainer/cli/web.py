"""The dashboard in a browser: textual-serve on the loopback interface, behind a token.

Any user's program, and any web site open in the browser, could otherwise control it. Therefore every request needs the
token (first in the address, then in a cookie of this site), the name of this host (which prevents DNS rebinding), and
no foreign origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import shlex
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import WSCloseCode, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from textual_serve.app_service import AppService
from textual_serve.server import Server

from trainer import TrainerError

HOST = "127.0.0.1"
COOKIE = "trainer_token"
MOST_DASHBOARDS = 8
"""Maximum number of open pages."""
MOST_COLUMNS, MOST_ROWS = 500, 200
"""Maximum cells of a dashboard: a 4K screen has 480 columns at the usual font size, and a dashboard draws every
cell.
"""
GRACE_SECONDS = 5.0
"""Seconds that a dashboard has to end after its page is closed, before it is killed."""
TAKE_KEYS = """<script>
new MutationObserver((_, observer) => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys && document.body.classList.contains("-first-byte")) {
    keys.focus();
    observer.disconnect();
  }
}).observe(document.body, {attributes: true, childList: true, subtree: true});
</script>
"""
"""Gives the page keyboard focus from its first frame on; the library does so only after a click."""


class Dashboard(AppService):
    """The process behind one page: limited in size, and ended with the page."""

    process: Process | None = None

    async def start(self, width: int, height: int) -> None:
        """Starts the process, at the maximum size if larger."""
        await super().start(_clamped(width, MOST_COLUMNS), _clamped(height, MOST_ROWS))

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        self.process = await super()._open_app_process(width, height)
        return self.process

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Resizes the dashboard, at the maximum size if larger."""
        await super().set_terminal_size(_clamped(width, MOST_COLUMNS), _clamped(height, MOST_ROWS))

    async def stop(self) -> None:
        """Ends the process, by force if necessary."""
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(super().stop(), GRACE_SECONDS)
        finally:
            if self.process is not None and self.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()


def _is_fault_of_server(record: logging.LogRecord) -> bool:
    """Whether an error is more than a malformed request, which is answered with 400 and quoted byte by byte."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _clamped(size: object, most: int) -> int:
    """A size from a page, as whole cells from 1 to `most`."""
    if not isinstance(size, (int, float)) or size != size:
        raise ValueError(f"invalid size: {size!r}")
    return int(min(max(size, 1), most))


class DashboardServer(Server):
    """Serves the dashboard of runs on `port`; each open page has a separate dashboard.

    Args:
        can_control: whether pages may send requests (stop, pause, …) to the run.
        say: receives the address, with its token, once it can be opened.
    """

    def __init__(self, runs: Sequence[Path], port: int, *, can_control: bool, say: Callable[[str], None]) -> None:
        words = [sys.executable, "-P", "-m", "trainer.cli", "watch", *(str(run.resolve()) for run in runs)]
        words += [] if can_control else ["--read-only"]
        # The library starts it through a shell. `exec` replaces the shell, so that this process's end reaches the
        # dashboard.
        command = f"exec {shlex.join([*words, '--parent', str(os.getpid())])}"
        super().__init__(
            command, host=HOST, port=port, title=f"trainer · {', '.join(run.resolve().name for run in runs)}"
        )
        self.public_url = f"http://{HOST}:{port}"
        self.token = secrets.token_urlsafe(32)
        self._say = say
        self._pages: set[web.WebSocketResponse] = set()

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"{self.public_url}/?token={self.token}"

    def initialize_logging(self) -> None:
        """Does not configure logging."""

    def serve_on(self, listening: socket.socket) -> None:
        """Serves on a listening socket, until SIGINT or SIGTERM."""
        loop = asyncio.new_event_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.request_exit)
        web.run_app(self._make_app(), sock=listening, handle_signals=False, loop=loop, print=None)

    async def on_startup(self, app: web.Application) -> None:
        """Reports the address."""
        self._say(self.address)

    async def on_shutdown(self, app: web.Application) -> None:
        """Closes the open pages, which ends their dashboards."""
        await asyncio.gather(*(page.close(code=WSCloseCode.GOING_AWAY) for page in self._pages))

    async def _make_app(self) -> web.Application:
        logging.getLogger("aiohttp.server").addFilter(_is_fault_of_server)
        app: web.Application = await super()._make_app()
        app.middlewares.append(self._guard())
        return app

    async def handle_index(self, request: web.Request) -> web.Response:
        """The page, which takes keyboard focus."""
        response = await super().handle_index(request)
        assert isinstance(response, web.Response) and response.text is not None
        response.text = response.text.replace("</body>", f"{TAKE_KEYS}</body>")
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Runs a dashboard for a page while the page is open."""
        try:
            width = _clamped(float(request.query.get("width", "80")), MOST_COLUMNS)
            height = _clamped(float(request.query.get("height", "24")), MOST_ROWS)
        except ValueError as error:
            raise web.HTTPBadRequest(text="width and height must be numbers of cells") from error
        if len(self._pages) >= MOST_DASHBOARDS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_DASHBOARDS} pages are open: close one of them")
        socket = web.WebSocketResponse(heartbeat=15)
        self._pages.add(socket)

        async def close() -> None:
            await socket.close()

        dashboard = Dashboard(
            self.command, write_bytes=socket.send_bytes, write_str=socket.send_str, close=close,
            download_manager=self.download_manager,
        )  # fmt: skip
        try:
            await socket.prepare(request)
            await dashboard.start(width, height)
            await self._process_messages(socket, dashboard)
        except (ValueError, TypeError, LookupError, AttributeError, AssertionError):  # not a message of this page
            await socket.close(code=WSCloseCode.INVALID_TEXT)
        finally:
            await dashboard.stop()
            self._pages.discard(socket)
        return socket

    def _guard(self) -> Middleware:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.host != f"{HOST}:{self.port}":
                raise web.HTTPForbidden(text=f"only for {HOST}:{self.port}")
            if request.headers.get("Origin", self.public_url) != self.public_url:
                raise web.HTTPForbidden(text="refused: request from another site")
            shown = request.query.get("token") or request.cookies.get(COOKIE, "")
            if not hmac.compare_digest(shown.encode(errors="replace"), self.token.encode()):
                raise web.HTTPForbidden(text="invalid token: open the address printed by `trainer watch --web`")
            response = await handler(request)
            if not response.prepared:
                response.set_cookie(COOKIE, self.token, httponly=True, samesite="Strict")
                response.headers["Content-Security-Policy"] = (
                    f"default-src 'self' 'unsafe-inline' data:; connect-src 'self' ws://{HOST}:{self.port}; "
                    "frame-ancestors 'none'"
                )
                response.headers["Referrer-Policy"] = "no-referrer"
                response.headers["Cache-Control"] = "no-store"
            return response

        return guard


def serve(runs: Sequence[Path], port: int | None, *, can_control: bool, say: Callable[[str], None]) -> None:
    """Serves until interrupted or terminated, on a free port if none is given.

    Raises:
        TrainerError: the port is in use.
    """
    with listening_socket(port) as listening:
        server = DashboardServer(runs, listening.getsockname()[1], can_control=can_control, say=say)
        server.serve_on(listening)


def listening_socket(port: int | None) -> socket.socket:
    """A socket that listens on the port, or on any free one.

    Raises:
        TrainerError: the port is in use, or not permitted.
    """
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port or 0))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        raise TrainerError(
            f"can't serve on port {port}", found=getattr(error, "strerror", None) or str(error),
            hint="Remove --port to use a free port.",
        ) from error  # fmt: skip
    return listening
