"""The dashboard in a browser: textual-serve on the loopback interface, behind a token.

Whoever can open a page on this machine could otherwise drive it: any user's program, and any web site that the browser
shows. So every request needs the token (in the address at first, in a cookie of this site's own from then on), the name
of this host (a name that a foreign site points at 127.0.0.1 is refused), and no other origin.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from textual_serve.server import Server

from trainer import TrainerError

HOST = "127.0.0.1"
COOKIE = "trainer_token"
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
"""Lets the page take keys from its first frame on; the library's own does so after a click."""


class DashboardServer(Server):
    """Serves the dashboard of some runs on `port`; each page that is opened is a dashboard of its own.

    Args:
        can_control: whether it may send requests (stop, pause, …) to the run.
        say: hears the address, with its token, once it can be opened.
    """

    def __init__(self, runs: Sequence[Path], port: int, *, can_control: bool, say: Callable[[str], None]) -> None:
        words = [sys.executable, "-P", "-m", "trainer.cli", "watch", *(str(run.resolve()) for run in runs)]
        words += [] if can_control else ["--read-only"]
        # The library starts it through a shell: without one in between, the dashboard hears of this process's end.
        command = f"exec {shlex.join([*words, '--parent', str(os.getpid())])}"
        super().__init__(
            command, host=HOST, port=port, title=f"trainer · {', '.join(run.resolve().name for run in runs)}"
        )
        self.public_url = f"http://{HOST}:{port}"
        self.token = secrets.token_urlsafe(32)
        self._say = say

    @property
    def address(self) -> str:
        """What is to be opened."""
        return f"{self.public_url}/?token={self.token}"

    def initialize_logging(self) -> None:
        """Leave logging alone: what matters is told."""

    def serve_on(self, listening: socket.socket) -> None:
        """Serve on a socket that listens already, until SIGINT or SIGTERM."""
        loop = asyncio.new_event_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.request_exit)
        web.run_app(self._make_app(), sock=listening, handle_signals=False, loop=loop, print=None)

    async def on_startup(self, app: web.Application) -> None:
        """Tell the address."""
        self._say(self.address)

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()
        app.middlewares.append(self._guard())
        return app

    async def handle_index(self, request: web.Request) -> web.Response:
        """The page."""
        response = await super().handle_index(request)
        assert isinstance(response, web.Response) and response.text is not None
        response.text = response.text.replace("</body>", f"{TAKE_KEYS}</body>")
        return response

    def _guard(self) -> Middleware:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.host != f"{HOST}:{self.port}":
                raise web.HTTPForbidden(text=f"only for {HOST}:{self.port}")
            if request.headers.get("Origin", self.public_url) != self.public_url:
                raise web.HTTPForbidden(text="refused: another site asks")
            shown = request.query.get("token") or request.cookies.get(COOKIE, "")
            if not hmac.compare_digest(shown.encode(), self.token.encode()):
                raise web.HTTPForbidden(text="wrong token: open the address that `trainer watch --web` printed")
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
    """Serve until interrupted or terminated; on a free port where none is asked for.

    Raises:
        TrainerError: the port is taken.
    """
    with listening_socket(port) as listening:
        server = DashboardServer(runs, listening.getsockname()[1], can_control=can_control, say=say)
        server.serve_on(listening)


def listening_socket(port: int | None) -> socket.socket:
    """A socket that listens on the port, or on any free one: from now on the address can be opened.

    Raises:
        TrainerError: the port is taken, or not for this user.
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
            hint="Leave --port out: a free one is taken.",
        ) from error  # fmt: skip
    return listening
