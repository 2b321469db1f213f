"""How single configuration values are read; each parser takes text or a TOML value and raises ValueError."""

import os
import re
from collections.abc import Callable
from typing import Any

from quiver.links.versions import parse_versions
from quiver.model.numbers import parse_size_bytes
from quiver.storage.postgres.database.address import parse_address

Parse = Callable[[Any], Any]

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{value!r} must be a non-empty string")
    return value.strip()


def optional_text(value: Any) -> str | None:
    return None if value in (None, "") else text(value)


def storage_address(value: Any) -> str | None:
    """Checked when it is read, so that a mistake is named before anything is opened."""
    found = optional_text(value)
    if found is not None:
        parse_address(found)
    return found


def texts(value: Any) -> tuple[str, ...]:
    """One or more, with commas between them or as a list."""
    words = value if isinstance(value, list | tuple) else str(value).split(",")
    return tuple(text(word).strip() for word in words if str(word).strip())


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
_MOST_WORKERS = 64
_NODE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def worker_count(value: Any) -> int:
    """A number, or `auto`: as many as this process may use cores."""
    if isinstance(value, str) and value.strip().lower() == "auto":
        return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    try:
        count: int = whole(1, _MOST_WORKERS)(value)
    except ValueError as error:
        raise ValueError(f"{error}, nor auto") from None
    return count


def optional_count(value: Any) -> int | None:
    return None if value in (None, "") else worker_count(value)


def optional_node_id(value: Any) -> str | None:
    if value in (None, ""):
        return None
    word = text(value).strip()
    if not _NODE_ID.fullmatch(word):
        raise ValueError(f"{value!r} is not 1 to 64 letters, digits, '.', '_' or '-'")
    return word


def optional_link_versions(value: Any) -> str | None:
    """Stays text, as users write it."""
    if value in (None, ""):
        return None
    word = str(value).strip()
    parse_versions(word)
    return word


def optional_port(value: Any) -> int | None:
    found: int | None = None if value in (None, "") else port(value)
    return found


def size_bytes(low: int, high: int) -> Parse:
    return lambda value: parse_size_bytes(value, low, high)


def one_of(choices: tuple[str, ...]) -> Parse:
    def parse(value: Any) -> str:
        word = str(value).strip().lower()
        if word not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return word

    return parse
