"""Numbers, durations and sizes in a few characters."""

from __future__ import annotations

import math
import time


def duration(seconds: float) -> str:
    """A duration: `20 ms`, `0.4 s`, `48 s`, `3:07`, `1h12`, `2d04h`."""
    if seconds < 0 or not math.isfinite(seconds):
        return "-"
    if 0 < seconds < 0.0995:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def moment(seconds: float) -> str:
    """A point in time, in seconds since 1970, as the local date and time: `2026-11-23 02:44`."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def clock(seconds: float) -> str:
    """A duration that still grows, with tenths of a second: `0.4 s`, `48.2 s`, `3:07.4`, then as `duration`."""
    tenths = round(10 * seconds) if math.isfinite(seconds) else -1
    if 1 <= tenths < 1000:
        return f"{tenths / 10:.1f} s"
    if 1000 <= tenths < 6000:
        return f"{tenths // 600}:{tenths % 600 / 10:04.1f}"
    return duration(seconds)


def number(value: float) -> str:
    """A metric's value in four significant digits: `0.1234`, `12.34`, `1.2e-05`, `nan`."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}"
    return f"{value:.2g}" if abs(value) < 1e-3 else f"{value:.3g}"


def size(count: float) -> str:
    """A number of bytes: `512 B`, `3.4 MB`, `1.2 GB` (powers of 1000, as disks are sold)."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def rate(value: float) -> str:
    """A rate in three significant digits: `41.2`, `0.52`, `1230`."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def plural(unit: str) -> str:
    """A unit's name in the plural: `steps`, `batches`."""
    return unit if unit.endswith("s") else unit + ("es" if unit.endswith(("ch", "x")) else "s")
