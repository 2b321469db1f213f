"""How single configuration values are read; each parser takes text or a TOML value and raises ValueError."""

import re
from collections.abc import Callable
from typing import Any

from quiver.model.limits import KIB, MIB

Parse = Callable[[Any], Any]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": KIB, "m": MIB, "g": 1024 * MIB, "t": MIB * MIB}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{value!r} is not a text with something in it")
    return value.strip()


def optional_text(value: Any) -> str | None:
    return None if value in (None, "") else text(value)


def flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"{value!r} is neither true nor false")
    return word in _TRUE


def whole(low: int, high: int) -> Parse:
    def parse(value: Any) -> int:
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{value!r} is not a whole number from {low} to {high}")
        return value

    return parse


port: Parse = whole(0, 65_535)


def size_bytes(low: int, high: int) -> Parse:
    """Bytes: a whole number, or a text such as `64MiB`, `512k`, `1.5GB` (units are powers of 1024)."""

    def parse(value: Any) -> int:
        size = value
        if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
            size = round(float(match[1]) * _SIZE_UNITS[match[2].lower()])
        if isinstance(size, bool) or not isinstance(size, int):
            raise ValueError(f"{value!r} is not a size such as 1048576 or 64MiB")
        if not low <= size <= high:
            raise ValueError(f"{value!r} is out of range: it must be from {low} to {high} bytes")
        return size

    return parse


def one_of(choices: tuple[str, ...]) -> Parse:
    def parse(value: Any) -> str:
        word = str(value).strip().lower()
        if word not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return word

    return parse
