"""Sizes as users write them: bytes, or a number with a unit such as `64 KiB`, `1MiB`, `1.5GB`."""

import re

Size = int | str
"""As users write it; a number is bytes."""

_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s*([kmgt]?)(i?b)?", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size_bytes(value: object, low: int, high: int) -> int:
    """Bytes. Units are powers of 1024, with or without the i; ValueError says what is wrong."""
    size = value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = round(float(match[1]) * _UNITS[match[2].lower()]) if match[2] or "." in match[1] else int(match[1])
    if isinstance(size, bool) or not isinstance(size, int):
        raise ValueError(f"{value!r} is not a size such as 1048576 or 64MiB")
    if not low <= size <= high:
        raise ValueError(f"{value!r} is out of range: it must be from {low} to {high} bytes")
    return size
