"""Downloads weights files into a cache: resumable, with their SHA-256, license and normalization."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any

from trainer import TrainerError, cache_folder
from trainer.engine.safetensors import LARGEST_HEADER, parsed
from trainer.rundir import replacing, write_error

NORMALIZATION = "normalization"
"""The entry in the header of a safetensors file: JSON of `mean` and `std`."""
if sys.platform != "win32":
    import fcntl

HUB = "https://huggingface.co"
HUB_VARIABLE = "HF_ENDPOINT"
"""The environment variable with the address of another hub, as for Hugging Face's own tools."""

Progress = Callable[[int, int], None]
"""Receives the bytes so far and the total, 0 if unknown."""

_HUB_FILE = re.compile(r"hf:(?P<model>[^@]+)@(?P<revision>[^/]+)/(?P<file>.+)")
_TIMEOUT = 30.0
_BLOCK = 1 << 18
_MOST_ATTEMPTS = 3
_MOST_JSON = 1 << 20


@dataclass(frozen=True)
class Facts:
    """Information about a weights file.

    Attributes:
        sha256: SHA-256 of the file, in hexadecimal; license: as named by its author, None: unknown.
        normalization: `mean` and `std` of the network's images, for values from 0 to 1; None: unknown.
    """

    sha256: str | None = None
    license: str | None = None
    normalization: Mapping[str, Any] | None = None


def downloaded(address: str, progress: Progress = lambda done, total: None) -> tuple[Path, Facts]:
    """The safetensors file of `https://…` or `hf:OWNER/REPO@REVISION/FILE`, from the cache if it is there.

    An interrupted download is continued. If several processes need the file, one downloads it and the others wait.

    Raises:
        TrainerError: there is no connection, no such file, or it is not a safetensors file.
    """
    folder = weights_cache()
    key = hashlib.sha256(address.encode()).hexdigest()[:32]
    file, facts = folder / f"{key}.safetensors", folder / f"{key}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f"{key}.lock"):
            if file.exists() and facts.exists():
                return file, Facts(**json.loads(facts.read_text(encoding="utf-8"))["facts"])
            partial = folder / f"{key}.part"
            _download(_url_of(address), partial, progress, address)
            try:
                found = _facts_of(address, partial)
            except TrainerError as error:
                partial.unlink()
                error.where = address
                raise
            with replacing(facts) as aside:
                aside.write_text(json.dumps({"address": address, "facts": asdict(found)}), encoding="utf-8")
            os.replace(partial, file)
            return file, found
    except (OSError, http.client.HTTPException) as error:
        raise _failure(address, error) from error


def weights_cache() -> Path:
    """The folder of downloaded weights, in TRAINER_CACHE_DIR or ~/.cache/trainer."""
    return cache_folder() / "weights"


def metadata_of(file: Path) -> dict[str, str]:
    """The texts in the header of a safetensors file, by name.

    Raises:
        TrainerError: it is not a safetensors file.
    """
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = opened.read(length) if length <= LARGEST_HEADER else b""
    if not header.startswith(b"{") or len(header) != length:
        raise TrainerError("not a safetensors file", where=str(file), expected="a header as JSON")
    found = parsed(header, str(file))
    metadata = found.get("__metadata__") if isinstance(found, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Excludes other processes that use the same file from this context; has no effect on Windows."""
    with open(path, "wb") as file:
        if sys.platform != "win32":
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- the file ---------------------------------------------------------------------------------------------------------


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Rejects redirects from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        if req.type == "https" and not newurl.startswith("https:"):
            raise urllib.error.URLError(f"a redirect to {newurl.partition(':')[0]}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, headers: Mapping[str, str] | None = None) -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": "trainer", **(headers or {})})
    return urllib.request.build_opener(_NoDowngrade).open(request, timeout=_TIMEOUT)


def _download(url: str, partial: Path, progress: Progress, address: str) -> None:
    """Downloads to `partial`, from its end on if the server still has the same file; retries as long as attempts make
    progress.
    """
    attempts = 0
    while True:
        before = partial.stat().st_size if partial.exists() else 0
        try:
            total = _continue(url, partial, progress)
            size = partial.stat().st_size
            if total is None or size == total:
                return
        except (http.client.IncompleteRead, ConnectionError, TimeoutError):
            size = partial.stat().st_size if partial.exists() else 0
            if attempts + 1 >= _MOST_ATTEMPTS:
                raise
        attempts = attempts + 1 if size <= before else 1
        if attempts >= _MOST_ATTEMPTS:
            raise TrainerError(
                "the download ends before the file does", where=address, found=f"{size:,} bytes", expected=f"{total:,}",
                hint="Start the run again: it continues the download.",
            )  # fmt: skip


def _continue(url: str, partial: Path, progress: Progress) -> int | None:
    """Appends the rest of the file; returns its size, None if the server doesn't send it."""
    tag_file = partial.with_suffix(".tag")
    start = partial.stat().st_size if partial.exists() and tag_file.exists() else 0
    headers = {"Range": f"bytes={start}-", "If-Range": tag_file.read_text("utf-8")} if start else {}
    try:
        response = _open(url, headers)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not start:
            raise
        response, start = _open(url), 0
    with response:
        if response.status != HTTPStatus.PARTIAL_CONTENT:
            start = 0
        length, tag = response.headers.get("Content-Length"), response.headers.get("ETag", "")
        if tag and not tag.startswith("W/"):
            tag_file.write_text(tag, encoding="utf-8")
        else:
            tag_file.unlink(missing_ok=True)  # it can't be continued
        total = None if length is None else start + int(length)
        with open(partial, "r+b" if start else "wb") as file:
            file.seek(start)
            done = start
            progress(done, total or 0)
            while block := response.read(_BLOCK):
                file.write(block)
                done += len(block)
                progress(done, total or 0)
    return total


def _failure(address: str, error: Exception) -> TrainerError:
    by_hand = "Or download the file by hand, and set `model.weights` to it."
    if isinstance(error, urllib.error.HTTPError):
        return TrainerError(
            "the weights can't be downloaded", where=address, found=f"{error.code} {error.reason}",
            expected="an address that needs no password", hint=f"Correct `model.weights`. {by_hand}",
        )  # fmt: skip
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLError):
        return TrainerError(
            "the weights can't be downloaded: the server does not prove its identity", where=address, found=str(reason),
            expected="a certificate that this machine trusts", hint=f"Set SSL_CERT_FILE to its certificates. {by_hand}",
        )  # fmt: skip
    if isinstance(error, OSError) and error.filename is not None:
        return write_error(Path(error.filename), error)
    return TrainerError(
        "the weights are not in the cache and can't be downloaded without a connection", where=address,
        found=str(getattr(reason, "strerror", None) or reason),
        hint=f"Start the run again with a connection: a started download is continued. {by_hand}",
    )  # fmt: skip


# --- the facts --------------------------------------------------------------------------------------------------------


def _hub() -> str:
    return os.environ.get(HUB_VARIABLE) or HUB


def _url_of(address: str) -> str:
    named = _HUB_FILE.fullmatch(address)
    return address if named is None else f"{_hub()}/{named['model']}/resolve/{named['revision']}/{named['file']}"


def _facts_of(address: str, file: Path) -> Facts:
    """The facts about a file, from its header and from the hub's model."""
    metadata = metadata_of(file)
    license_name, normalization = metadata.get("license"), normalization_in(metadata)
    if (named := _HUB_FILE.fullmatch(address)) is not None:
        model, revision = named["model"], named["revision"]
        card = _json(f"{_hub()}/api/models/{model}/revision/{revision}").get("cardData")
        license_name = license_name or (card.get("license") if isinstance(card, dict) else None)
        for name in ("config.json", "preprocessor_config.json"):
            normalization = normalization or _published(_json(f"{_hub()}/{model}/resolve/{revision}/{name}"))
    return Facts(sha256_of(file), license_name if isinstance(license_name, str) else None, normalization)


def normalization_in(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """The normalization in the header of a safetensors file, as `trainer checkpoint convert` and `trainer export` write
    it.
    """
    try:
        if NORMALIZATION in metadata:
            return _valid(json.loads(metadata[NORMALIZATION]))
        return _valid(json.loads(metadata["model"])["card"][NORMALIZATION])
    except (ValueError, LookupError, TypeError):
        return None


def _published(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The normalization in a model's config.json as timm writes it, or in preprocessor_config.json of transformers."""
    inner = config.get("pretrained_cfg")
    source = inner if isinstance(inner, dict) else config
    return _valid({
        "mean": source.get("mean", source.get("image_mean")), "std": source.get("std", source.get("image_std"))
    })  # fmt: skip


def _valid(found: Any) -> dict[str, Any] | None:
    from trainer.configs.model import NormalizationConfig

    try:
        return NormalizationConfig.model_validate_json(json.dumps(found)).model_dump(mode="json")
    except ValueError:
        return None


def _json(url: str) -> dict[str, Any]:
    """A small JSON object; empty if the server doesn't have it or requires a login.

    Raises:
        OSError: the server doesn't answer or reports an internal error, so that its content is unknown.
    """
    try:
        with _open(url) as response:
            found = json.loads(response.read(_MOST_JSON))
    except urllib.error.HTTPError as error:
        if error.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise
        return {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
