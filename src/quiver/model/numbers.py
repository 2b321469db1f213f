"""Whole numbers and sizes as users write them, and values as errors show them."""

import re

_MOST_DIGITS = 19
_SHOWN = 100
HIGHEST = 2**63 - 1
"""No offset, id or time is higher."""

Size = int | str
"""As users write it: bytes, or a number with a unit such as `64 KiB`, `1MiB`, `1.5GB`."""

_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s*([kmgt]?)(i?b)?", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def whole_number(text: str) -> int | None:
    """The number in plain digits, up to HIGHEST; None for any other text.

    `str.isdigit` is true for digits of all scripts and for superscripts, which `int` refuses; `int` also refuses
    thousands of digits.
    """
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number <= HIGHEST else None


def shown(value: object) -> str:
    """A value as errors show it, cut to fit on a line."""
    text = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def parse_size_bytes(value: object, low: int, high: int) -> int:
    """The size in bytes. Units are powers of 1024, with or without the i. ValueError says what is wrong."""
    size = value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = round(float(match[1]) * _UNITS[match[2].lower()]) if match[2] or "." in match[1] else int(match[1])
    if isinstance(size, bool) or not isinstance(size, int):
        raise ValueError(f"{value!r} is not a size such as 1048576 or 64MiB")
    if not low <= size <= high:
        raise ValueError(f"{value!r} is out of range: it must be from {low} to {high} bytes")
    return size
