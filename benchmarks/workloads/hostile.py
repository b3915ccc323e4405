"""Runs commands on damaged and malicious files of every kind that they read, and checks that each is handled safely.

The command itself reads each file, in a process limited to a gigabyte. It may refuse the file or read its intact parts.
It must not end with a traceback, print terminal control characters, run code, or use more memory.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import checkout_environment
from PIL import Image

MEMORY_BYTES = 1_000_000_000
SECONDS = 60.0
NAMES = ("a\x1b]0;title\x07", "b\x1b[31m", "c\x9b2J", "d\r", "e\u202e", "f\ud800", "../../g", "h\0", "", "i" * 5000)
CONFIG = "extends: digits\ntrain: {{epochs: 1}}\nmodel: {{weights: {weights}}}\n"
RUN = """\
{"kind":"run","time":1.0,"since_start":0.1,"attempt":1,"name":"n","task":"t","version":"0","pid":1,"host":"h","device":"cpu"}
{"kind":"metric","time":2.0,"since_start":1.1,"attempt":1,"step":1,"epoch":0.5,"split":"valid","values":{"loss":1.0}}
{"kind":"sample","time":2.0,"since_start":1.2,"attempt":1,"step":1,"split":"valid","name":"s","file":"samples/s.png"}
{"kind":"report","time":2.0,"since_start":1.3,"attempt":1,"step":1,"split":"valid","name":"r","file":"reports/r.json"}
{"kind":"warning","time":2.5,"since_start":1.6,"attempt":1,"message":"careful","where":"here"}
{"kind":"end","time":3.0,"since_start":2.1,"attempt":1,"status":"done","exit_code":0,"step":1,"metrics":{"valid/loss":1}}
"""


class Marker:
    """An object that creates `file` when it is unpickled, which shows that code was run."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return (open, (str(self._file), "w"))


class Hostile:
    """Writes changed files to `folder`, one after another, and runs a command on each; `seed` decides the changes."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.marker = folder / "MARKER"

    def once(self) -> str:
        """Writes and reads one more file; returns the problem in words, or "" if there is none."""
        name, make = self.random.choice(list(KINDS.items()))
        words = self.random.choice(make(self))
        reader = () if words[0] == "-c" else ("-m", "trainer.cli")
        try:
            done = subprocess.run(
                [sys.executable, "-P", *reader, *words], cwd=self.folder, env=checkout_environment(),
                capture_output=True, check=False, timeout=SECONDS, preexec_fn=_within_bounds, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{name}, {' '.join(words)}: it did not end in {SECONDS:.0f} s"
        problem = self._problem(done.returncode, (done.stdout + done.stderr).decode("utf-8", "surrogateescape"))
        return f"{name}, {' '.join(words)}: {problem}" if problem else ""

    def _problem(self, code: int, said: str) -> str:
        page = self.folder / "page.html"
        shown = said + (page.read_text(encoding="utf-8") if page.exists() else "")
        page.unlink(missing_ok=True)
        if self.marker.exists():
            self.marker.unlink()
            return "code in the file was run"
        if "Traceback" in said:
            return f"a traceback: {said[-600:]}"
        if any((ord(each) < 32 and each not in "\n\t") or each in "\x7f\x9b\u202e" for each in shown):
            return f"a raw control character is printed: {shown[:300]!r}"
        return "" if code in (0, 1, 2) else f"ended with {code}: {said[-300:]}"

    def changed(self, content: bytes) -> bytes:
        """Returns the content unchanged, truncated, or with bytes replaced, inserted or zeroed."""
        chance, changed = self.random, bytearray(content)
        for _ in range(chance.choice((0, 1, 1, 4))):
            at = chance.randrange(len(changed) + 1) if changed else 0
            way = chance.randrange(4)
            if way == 0:
                del changed[at:]
            elif way == 1:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            elif way == 2:
                changed[at : at + 8] = chance.choice((bytes(8), b"\xff" * 8, chance.randbytes(8)))
            else:
                changed[at:at] = chance.randbytes(chance.randint(1, 40))
        return bytes(changed)

    def write(self, name: str, content: bytes) -> str:
        """Writes a changed file and returns its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.changed(content))
        return name


def _within_bounds() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def _safetensors(hostile: Hostile) -> list[list[str]]:
    chance = hostile.random
    entry: dict[str, Any] = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    entry |= chance.choice(({}, {}, {"shape": [2**40]}, {"shape": [-1]}, {"dtype": "X"}, {"data_offsets": [8, 0]},
                            {"data_offsets": [0, 2**62]}, {"shape": "x"}, {"shape": [10**400]}))  # fmt: skip
    header = json.dumps({chance.choice(NAMES): entry}).encode()
    length = chance.choice((len(header), len(header), 2**63, 2**31, 0))
    file = hostile.write("weights.safetensors", struct.pack("<Q", length) + header + bytes(8))
    return _weights(hostile, file)


def _weights(hostile: Hostile, file: str) -> list[list[str]]:
    target = hostile.folder / "target.safetensors"
    target.unlink(missing_ok=True)
    (hostile.folder / "with-weights.yaml").write_text(CONFIG.format(weights=file))
    return [["checkpoint", "inspect", file], ["checkpoint", "convert", file, target.name],
            ["check", "with-weights.yaml"], ["checkpoint", "verify", file]]  # fmt: skip


def _pytorch(hostile: Hostile) -> list[list[str]]:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({hostile.random.choice(NAMES): Marker(hostile.marker)}))
        archive.writestr("archive/data/0", bytes(8))
        archive.writestr("archive/version", "3\n")
    legacy = pickle.dumps(Marker(hostile.marker))
    return _weights(hostile, hostile.write("weights.pt", hostile.random.choice((content.getvalue(), legacy))))


def _numpy(hostile: Hostile) -> list[list[str]]:
    content = io.BytesIO()
    chance = hostile.random
    if chance.random() < 0.5:
        np.savez(content, **{"a": np.zeros(4), "b": np.array([Marker(hostile.marker)], dtype=object)})
    else:
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:  # a zip bomb; the header claims more
            shape = chance.choice(((10**12,), (2**20, 2**20), (4,)))
            head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            archive.writestr(
                "x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(10**7)
            )
    return _weights(hostile, hostile.write("weights.npz", content.getvalue()))


def _picture(hostile: Hostile) -> bytes:
    content, chance = io.BytesIO(), hostile.random
    pixels = np.frombuffer(chance.randbytes(32 * 32 * 3), np.uint8).reshape(32, 32, 3)
    Image.fromarray(pixels).save(content, chance.choice(("PNG", "JPEG", "BMP", "GIF")))
    whole = content.getvalue()
    if chance.random() < 0.2 and whole[:4] == b"\x89PNG":  # a header that claims a picture of a terabyte
        whole = whole[:16] + struct.pack(">II", 2**20, 2**20) + whole[24:]
    return whole


PROGRAM = "from trainer import engine; engine.save_program('program.safetensors', lambda x: x * 2, engine.zeros(3))"
LOADING = """
import sys
from trainer import TrainerError, engine
try:
    engine.load_program(sys.argv[1], memory=10**8)
except TrainerError as error:
    print(ascii(str(error)))
"""


def _program(hostile: Hostile) -> list[list[str]]:
    whole = hostile.folder / "whole.safetensors"
    if not whole.exists():
        subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM], cwd=hostile.folder, env=checkout_environment(), check=True
        )  # fmt: skip
        (hostile.folder / "program.safetensors").rename(whole)
    return [["-c", LOADING, hostile.write("program.safetensors", whole.read_bytes())]]


SERVING = """
import asyncio, sys
from pathlib import Path
from aiohttp import web
from trainer.cli.web import DashboardServer, listening_socket
async def answer(request):
    listening = listening_socket(None)
    host, port = listening.getsockname()
    server = DashboardServer([Path()], port, can_control=False, say=str)
    runner = web.AppRunner(await server._make_app())
    await runner.setup()
    await web.SockSite(runner, listening).start()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request.replace(b"HOST", f"{host}:{port}".encode()))
    writer.write_eof()
    head = await reader.readline()
    writer.close()
    await runner.cleanup()
    return head
head = asyncio.run(answer(Path(sys.argv[1]).read_bytes()))
print(ascii(head))
sys.exit(0 if not head or head.split()[1] in (b"400", b"403") else 3)
"""


def _cookie(hostile: Hostile) -> list[list[str]]:
    chance = hostile.random
    value = chance.choice((b"\xff\xfe", b"", b"a" * 100_000, b"\"\\377", "\udcff\u202e".encode(errors="surrogatepass"),
                           b"a; trainer_token=b", b"\0", b"%ff", chance.randbytes(40)))  # fmt: skip
    path = chance.choice((b"/", b"/ws?width=9&height=9", b"/ws?width=nan", b"/static/js/textual.js"))
    cookie = hostile.changed(b"trainer_token=" + value)
    hostile.folder.joinpath("request").write_bytes(
        b"GET " + path + b" HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nCookie: " + cookie + b"\r\n\r\n"
    )
    return [["-c", SERVING, "request"]]


def _images(hostile: Hostile) -> list[list[str]]:
    for number in range(3):
        kind = hostile.random.choice(("cat", "dog\x1b[31m", "b\u202ed"))
        hostile.write(f"pictures/{kind}/{number}.png", _picture(hostile))
    return [["data", "inspect", "pictures"], ["data", "inspect", "pictures", "--json"]]


def _annotations(hostile: Hostile) -> list[list[str]]:
    chance = hostile.random
    odd: Any = chance.choice((None, -1, 2**63, 10**400, 1e308, "x\x1b[31m", [], {}, True, "../../etc/passwd", "a\0b"))
    image: dict[str, Any] = {"id": 1, "file_name": "1.png", "width": 32, "height": 32}
    box: dict[str, Any] = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}
    category: dict[str, Any] = {"id": 1, "name": chance.choice(NAMES)}
    which = chance.choice((image, box, category, {}))
    if which:
        which[chance.choice(list(which))] = odd
    hostile.write("scenes/images/1.png", _picture(hostile))
    content = {"images": [image], "annotations": [box], "categories": [category]}
    file = hostile.write("scenes/annotations.json", json.dumps(content).encode())
    found = hostile.write("found.json", json.dumps([{**box, "score": odd}]).encode())
    return [["data", "inspect", "scenes", "--format", "coco", "images=images", "annotations=annotations.json"],
            ["data", "inspect", "scenes"], ["data", "score", file, found]]  # fmt: skip


def _run(hostile: Hostile) -> list[list[str]]:
    chance = hostile.random
    lines = RUN.splitlines()
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(lines))
        event = json.loads(lines[at])
        field = chance.choice(list(event))
        event[field] = chance.choice((None, -1, 10**400, "x\x1b[31m\ud800", [], {"a\x9b": "b"}, 2**70, 1e308, True, ""))
        lines[at] = json.dumps(event)
    folder = "runs/hostile"
    hostile.write(f"{folder}/events.jsonl", ("\n".join(lines) + "\n").encode())
    hostile.write(f"{folder}/config-1.yaml", b"task: digits\ncheckpoint:\n  best:\n    metric: valid/loss\n")
    hostile.write(f"{folder}/environment-1.json", b'{"packages": {"a\\u001b": "1"}}')
    hostile.write(f"{folder}/samples/s.png", _picture(hostile))
    report = {"kind": chance.choice(("coco", "curve", "per_class", "x")), "stats": {"AP": "nan"}, "classes": [{}]}
    hostile.write(f"{folder}/reports/r.json", json.dumps(report).encode())
    lock = hostile.write(f"{folder}/run.lock", b'{"pid": 1, "host": "x\\u001b[31m"}')
    os.utime(hostile.folder / lock, (0, 0))  # stale: the owner is dead, so `watch` does not wait for more
    return [["runs"], ["runs", "--json"], ["report", folder, "-o", "page.html"], ["compare", folder, folder],
            ["watch", folder, "--plain"], ["runs", "export", folder, "--to", "csv"]]  # fmt: skip


KINDS: dict[str, Callable[[Hostile], list[list[str]]]] = {
    "safetensors": _safetensors,
    "a PyTorch file": _pytorch,
    "an archive of NumPy": _numpy,
    "a program": _program,
    "pictures": _images,
    "annotations": _annotations,
    "a run": _run,
    "a cookie": _cookie,
}
