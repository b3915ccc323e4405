"""The caches on disk: their contents, and how to clear them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CacheFolder:
    """A folder that may be deleted at any time, and its contents."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    nbytes: int
    decisions: int | None = None


def caches() -> list[CacheFolder]:
    """The caches of this user, in TRAINER_CACHE_DIR or ~/.cache."""
    from trainer.cli.remote.agent import sent_data
    from trainer.datasets.readers.documents import token_cache
    from trainer.engine.autotune.cache import TuningCache, cache_path
    from trainer.engine.targets.disk_cache import cache_directory
    from trainer.learner.weights.download import weights_cache

    tuning = cache_path().parent
    decisions = sum(len(TuningCache(path).entries()) for path in _files(tuning) if path.suffix == ".jsonl")
    return [
        _folder("compiled kernels", cache_directory()),
        _folder("autotuning decisions", tuning, decisions),
        _folder("tokenized documents", token_cache()),
        _folder("downloaded weights", weights_cache()),
        _folder("received data", sent_data()),
    ]


def clear(cache: CacheFolder) -> None:
    """Deletes the contents of a cache. Active runs are not affected: they have already read what they need.

    Raises:
        OSError: a file can't be deleted.
    """
    for path in cache.files:
        path.unlink(missing_ok=True)


def _folder(name: str, folder: Path, decisions: int | None = None) -> CacheFolder:
    files = tuple(_files(folder))
    return CacheFolder(name, folder, files, sum(path.stat().st_size for path in files), decisions)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file()) if folder.is_dir() else iter(())
