"""The dashboard in a browser: who may open it, and that it draws and takes keys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.conftest import PATIENCE, Commands
from tests.tui.synthetic_run import write_run
from trainer import TrainerError
from trainer.rundir import RunPaths

aiohttp = pytest.importorskip("aiohttp", reason="textual-serve is not installed")
from trainer.cli.verbs.watch import SERVED_GB  # noqa: E402
from trainer.cli.web import COOKIE, HOST, MOST_COLUMNS, MOST_DASHBOARDS, MOST_ROWS, listening_socket  # noqa: E402


class Site:
    """A served run, from its address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.server: psutil.Process | None = None
        self.process: subprocess.Popen[str] | None = None
        self.base, _, self.token = address.partition("/?token=")

    async def status(self, path: str, **headers: str) -> int:
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.base + path, headers=headers) as response,
        ):
            return int(response.status)

    @contextlib.asynccontextmanager
    async def page(self, width: object = 100, height: object = 30) -> AsyncIterator[Any]:
        """The socket of an open page."""
        async with (
            aiohttp.ClientSession(cookies={COOKIE: self.token}) as session,
            session.ws_connect(f"{self.base}/ws?width={width}&height={height}", headers={"Origin": self.base}) as page,
        ):
            yield page

    async def reads(self, *keys: str, until: str) -> str:
        """What the page's socket sends once these keys were pressed, up to a text."""
        seen = ""
        async with self.page() as page:
            waiting = list(keys)
            while until not in seen:
                message = await page.receive(timeout=PATIENCE)
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), seen[-2000:]
                content = message.data
                seen += content.decode("utf-8", "replace") if isinstance(content, bytes) else content
                if waiting and "phases" in seen:
                    await page.send_json(["stdin", waiting.pop(0)])
        return seen


@pytest.fixture
def site(tmp_path: Path, commands: Commands) -> Site:
    paths = write_run(tmp_path / "digits-7")
    process = commands.start("watch", str(paths.root), "--web")
    assert process.stdout is not None
    found = Site(process.stdout.readline().strip())
    found.server, found.process = psutil.Process(process.pid), process
    return found


async def test_only_the_address_with_the_token_opens_it(site: Site) -> None:
    assert await site.status("/") == 403
    assert await site.status("/?token=wrong") == 403
    assert await site.status("/static/js/textual.js") == 403
    assert await site.status("/ws") == 403
    assert await site.status(f"/?token={site.token}") == 200
    assert await site.status("/static/js/textual.js", Cookie=f"{COOKIE}={site.token}") == 200


async def test_another_site_is_refused_even_with_the_token(site: Site) -> None:
    with_token = f"/?token={site.token}"
    assert await site.status(with_token, Origin="http://example.org") == 403
    assert await site.status("/ws", Origin="http://example.org", Cookie=f"{COOKIE}={site.token}") == 403
    assert await site.status(with_token, Host="example.org") == 403  # a name made to point at this machine
    assert await site.status(with_token, Origin=site.base) == 200


async def test_it_draws_and_takes_keys(site: Site) -> None:
    assert "digits-7" in await site.reads(until="DONE")
    assert "learning_rate" in await site.reads("7", until="config.yaml:1:1")


async def test_a_cookie_that_is_no_text_is_refused_as_a_wrong_token_is(site: Site) -> None:
    host, _, port = site.base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {COOKIE}=".encode() + b"\xff\xfe\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"403"
    writer.close()


async def test_a_malformed_request_prints_no_traceback(site: Site, commands: Commands) -> None:
    assert site.process is not None
    host, _, port = site.base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: ".encode() + b"\x1b]0;\0\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()
    site.process.terminate()
    _, errors = site.process.communicate(timeout=PATIENCE)
    assert "Traceback" not in errors and "\x1b" not in errors


@pytest.mark.parametrize("size", [999_999_999, "9" * 400, -5])
async def test_a_dashboard_has_a_size_that_can_be_drawn(site: Site, size: object) -> None:
    assert site.server is not None
    async with site.page(size, size) as page:
        await page.receive(timeout=PATIENCE)
        (dashboard,) = site.server.children()
        environment = dashboard.environ()
        await page.send_json(["resize", {"width": 999_999_999, "height": 999_999_999}])
        await page.send_json(["ping", "still there"])
        while (message := await page.receive(timeout=PATIENCE)).type is not aiohttp.WSMsgType.TEXT:
            pass
        assert "still there" in message.data
        hard = resource.prlimit(dashboard.pid, resource.RLIMIT_DATA)[1]
    assert 1 <= int(environment["COLUMNS"]) <= MOST_COLUMNS and 1 <= int(environment["ROWS"]) <= MOST_ROWS
    assert hard == int(SERVED_GB * 1e9)


@pytest.mark.parametrize("query", ["width=x", "height=nan", "width="])
async def test_a_size_that_is_no_number_is_refused(site: Site, query: str) -> None:
    assert await site.status(f"/ws?{query}", Cookie=f"{COOKIE}={site.token}") == 400


@pytest.mark.parametrize("message", ['["resize", {}]', '["stdin", 3]', "[]", "{", '["resize", {"width": "x"}]', "3"])
async def test_a_message_that_no_page_sends_closes_the_page(site: Site, message: str) -> None:
    async with site.page() as page:
        await page.send_str(message)
        while (found := await page.receive(timeout=PATIENCE)).type is not aiohttp.WSMsgType.CLOSE:
            assert found.type is aiohttp.WSMsgType.BINARY
        assert found.data == aiohttp.WSCloseCode.INVALID_TEXT


async def test_so_many_pages_may_be_open_and_no_more(site: Site) -> None:
    async with contextlib.AsyncExitStack() as pages:
        for _ in range(MOST_DASHBOARDS):
            await pages.enter_async_context(site.page())
        assert await site.status("/ws", Cookie=f"{COOKIE}={site.token}") == 503


async def test_it_listens_on_the_loopback_alone(site: Site) -> None:
    port = int(site.base.rpartition(":")[2])
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        if state == "0A" and int(local.partition(":")[2], 16) == port:
            assert local.startswith("0100007F")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_server_is_that_of_its_dashboards(
    number: signal.Signals, tmp_path: Path, commands: Commands
) -> None:
    paths = write_run(tmp_path / "digits-7")
    process = commands.start("watch", str(paths.root), "--web")
    assert process.stdout is not None
    site = Site(process.stdout.readline().strip())
    started: list[psutil.Process] = []

    async def look_and_end() -> None:
        async with site.page() as page:
            await page.receive(timeout=PATIENCE)
            started.extend(psutil.Process(process.pid).children(recursive=True))
            os.kill(process.pid, number)

    asyncio.run(look_and_end())
    assert started
    assert process.wait(PATIENCE) in (0, 130, 143, -number)
    _, left = psutil.wait_procs(started, timeout=PATIENCE)
    assert left == []


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(TrainerError, match="can't serve on port"):
            listening_socket(taken.getsockname()[1])


def test_web_options_need_web(tmp_path: Path, commands: Commands) -> None:
    paths: RunPaths = write_run(tmp_path / "digits-7")
    done = commands.finish("watch", str(paths.root), "--control", "--plain")
    assert done.returncode == 2 and "--port and --control need --web" in done.stderr
