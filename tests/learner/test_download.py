"""Weights from an address: downloaded once, continued after an interruption, with their facts in the config."""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from trainer import TrainerError
from trainer.cli.weights import with_weights
from trainer.configs import ConfigError, config_from, dump_resolved, load, load_resolved
from trainer.configs.model import ModelConfig, NormalizationConfig
from trainer.engine import nn
from trainer.learner.weights import start_from
from trainer.learner.weights.download import _NoDowngrade, downloaded
from trainer.learner.weights.sources import settled

VALUES = {"weight": np.arange(6000, dtype=np.float32).reshape(2, 3000), "bias": np.float32([1, 2])}
CONTENT = save(VALUES, {"format": "pt"})
ADDRESS = "hf:someone/net@main/model.safetensors"


class Hub:
    """A server with a model, as Hugging Face's hub has it.

    Attributes:
        files: content by path. requests: the path and the range of each request. cut: number of bytes after which the
        next answers end. broken: paths that the server can't answer for now.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {
            "/someone/net/resolve/main/model.safetensors": CONTENT,
            "/api/models/someone/net/revision/main": json.dumps({"cardData": {"license": "apache-2.0"}}).encode(),
            "/someone/net/resolve/main/config.json": json.dumps(
                {"pretrained_cfg": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}
            ).encode(),
        }
        self.requests: list[tuple[str, str | None]] = []
        self.cut: list[int] = []
        self.broken: set[str] = set()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.requests.append((handler.path, wanted))
        content = self.files.get(handler.path)
        if content is None or handler.path in self.broken:
            handler.send_error(404 if content is None else 503)
            return
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        start = 0
        if wanted is not None and handler.headers.get("If-Range") == tag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(content) - start))
        handler.send_header("ETag", tag)
        handler.end_headers()
        end = self.cut.pop(0) if self.cut and handler.path.endswith("model.safetensors") else len(content)
        handler.wfile.write(content[start : start + end])
        handler.close_connection = True


@contextmanager
def serving(hub: Hub, certificate: Path | None = None) -> Iterator[int]:
    """The port of a server on this machine that answers as the hub does, encrypted with a certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.answer(self)

        def log_message(self, *words: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    hub = Hub()
    with serving(hub) as port:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        yield hub


def test_an_https_address_is_downloaded_if_the_server_proves_its_identity(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Path(__file__).with_name("loopback.pem")
    metadata = {"license": "mit", "normalization": json.dumps({"mean": [0.5], "std": [0.25]})}
    hub.files["/net.safetensors"] = save(VALUES, metadata)
    with serving(hub, certificate) as port:
        config = ModelConfig(weights=f"https://127.0.0.1:{port}/net.safetensors")
        with pytest.raises(TrainerError, match="does not prove its identity"):
            settled(config, is_normalized=False)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        found = settled(config, is_normalized=True)
    assert (found.license, found.normalization) == ("mit", NormalizationConfig(mean=(0.5,), std=(0.25,)))


def test_the_first_use_downloads_and_records_the_facts(hub: Hub) -> None:
    progress: list[tuple[int, int]] = []
    own = NormalizationConfig(mean=(0.5,), std=(0.5,))
    config = settled(
        ModelConfig(weights=ADDRESS), lambda done, total: progress.append((done, total)), is_normalized=True
    )
    assert config.sha256 == hashlib.sha256(CONTENT).hexdigest() and config.license == "apache-2.0"
    assert config.normalization == NormalizationConfig(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    assert progress[0] == (0, len(CONTENT)) and progress[-1] == (len(CONTENT), len(CONTENT))
    before = len(hub.requests)
    net = nn.Linear(3000, 2)
    (line,) = start_from(config, {"net": net})
    assert line == f"{ADDRESS}: 2 of 2 arrays loaded" and len(hub.requests) == before
    np.testing.assert_array_equal(net.bias.numpy(), VALUES["bias"])
    kept = ModelConfig(weights=ADDRESS, normalization=own, license="mine")
    found = settled(kept, is_normalized=True)
    assert (found.normalization, found.license) == (own, "mine")


def test_an_interrupted_download_is_continued(hub: Hub) -> None:
    hub.cut = [5000, 7000]
    file, _ = downloaded(ADDRESS)
    assert file.read_bytes() == CONTENT
    ranges = [wanted for path, wanted in hub.requests if path.endswith("model.safetensors")]
    assert ranges == [None, "bytes=5000-", "bytes=12000-"]


def test_a_download_that_gets_no_further_ends_and_is_continued_by_the_next_run(hub: Hub) -> None:
    hub.cut = [5000, 0, 0, 0]
    with pytest.raises(TrainerError, match="continue"):
        downloaded(ADDRESS)
    hub.requests.clear()
    hub.cut = []
    assert downloaded(ADDRESS)[0].read_bytes() == CONTENT
    assert hub.requests[0][1] == "bytes=5000-"


def test_a_file_that_has_changed_is_downloaded_from_the_beginning(hub: Hub) -> None:
    hub.cut = [5000, 0, 0, 0]
    with pytest.raises(TrainerError):
        downloaded(ADDRESS)
    hub.cut = []
    other = save({**VALUES, "bias": np.float32([3, 4])})
    hub.files["/someone/net/resolve/main/model.safetensors"] = other
    assert downloaded(ADDRESS)[0].read_bytes() == other


def test_facts_that_the_hub_can_not_give_now_do_not_count_as_absent(hub: Hub) -> None:
    hub.broken = {"/someone/net/resolve/main/config.json"}
    with pytest.raises(TrainerError, match="503"):
        downloaded(ADDRESS)
    hub.broken = set()
    assert downloaded(ADDRESS)[1].normalization is not None


def test_another_file_than_the_recorded_one_is_refused(hub: Hub) -> None:
    with pytest.raises(TrainerError, match="not those that the config names"):
        settled(ModelConfig(weights=ADDRESS, sha256="0" * 64), is_normalized=False)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "404"), (b"PK\x03\x04" * 9, "not a safetensors file"), (b"", "not a safetensors")]
)
def test_what_is_no_file_of_weights_is_refused(hub: Hub, content: bytes | None, said: str) -> None:
    path = "/someone/net/resolve/main/model.safetensors"
    hub.files = {name: value for name, value in hub.files.items() if name != path}
    if content is not None:
        hub.files[path] = content
    with pytest.raises(TrainerError, match=said):
        downloaded(ADDRESS)


def test_without_a_connection_one_sentence_says_so(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_port  # closed below: connections are refused
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    with pytest.raises(TrainerError) as raised:
        settled(ModelConfig(weights=ADDRESS), is_normalized=False)
    assert raised.value.message == ("the weights are not in the cache and can't be downloaded without a connection")
    assert raised.value.where == ADDRESS and "refused" in str(raised.value.found)


def test_different_normalizations_need_a_choice(hub: Hub) -> None:
    hub.files["/other/net/resolve/main/model.safetensors"] = save(
        VALUES, {"normalization": json.dumps({"mean": [0.5], "std": [0.25]}), "license": "mit"}
    )
    parts = {"head": {"weights": "hf:other/net@main/model.safetensors"}}
    config = ModelConfig.model_validate_json(json.dumps({"weights": ADDRESS, "parts": parts}))
    with pytest.raises(TrainerError, match="different normalizations"):
        settled(config, is_normalized=True)
    chosen = config.model_copy(update={"normalization": NormalizationConfig(mean=(0.5,), std=(0.5,))})
    assert settled(chosen, is_normalized=False).parts["head"].license == "mit"


@pytest.mark.parametrize("address", ["http://host/a.safetensors", "ftp://host/a.safetensors"])
def test_a_redirect_to_an_address_without_encryption_is_refused(address: str) -> None:
    request = urllib.request.Request("https://host/a.safetensors")
    with pytest.raises(urllib.error.URLError, match="not encrypted"):
        _NoDowngrade().redirect_request(request, io.BytesIO(), 302, "Found", http.client.HTTPMessage(), address)


@pytest.mark.parametrize(
    "weights", ["https://host/net.pth", "http://host/net.safetensors", "hf:someone/net/a.safetensors"]
)
def test_an_address_of_another_form_is_a_mistake_in_the_config(weights: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config_from({"model": {"weights": weights}, "optimizer": {"name": "sgd", "learning_rate": 1.0},
                     "train": {"steps": 1}})  # fmt: skip
    assert f"found {weights}; other formats are not downloaded" in str(raised.value)


def test_the_resolved_config_has_the_facts_and_is_read_again(hub: Hub, tmp_path: Any) -> None:
    events: list[Any] = []
    loaded = with_weights(load("clothes", [f"model.parts.fc.weights={ADDRESS}"]), events.append)
    assert {event.name for event in events} == {"weights"} and events[-1].state == "finished"
    assert events[-1].done == len(CONTENT)
    (tmp_path / "config.yaml").write_text(dump_resolved(loaded), encoding="utf-8")
    again = load_resolved(tmp_path / "config.yaml")
    assert again.config.model == loaded.config.model
    assert again.config.model.parts["fc"].license == "apache-2.0"
    assert again.config.model.normalization == NormalizationConfig(
        mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
    )
    changed = load("clothes", [f"model.parts.fc.weights={ADDRESS}"]).config.model
    assert changed.with_records_of(loaded.config.model) == loaded.config.model
