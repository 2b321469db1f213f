"""One message as an expression sees it: a tuple, because making one per message must cost next to nothing."""

from typing import Any

import msgspec

JsonValue = Any
"""None, a bool, an int, a float, a str, a list or a dict: what JSON can be."""
NAMES = ("value", "text", "key", "headers", "timestamp", "offset", "partition", "priority")
Row = tuple[JsonValue, ...]
"""The parts in the order of NAMES (None for one that is not read), then the results of the regular expressions."""

MAX_JSON_BYTES = 4 * 1024 * 1024
"""A larger value counts as text: to decode it would hold up everybody for too long."""

_decode = msgspec.json.Decoder().decode


def read_value(raw: bytes | None) -> JsonValue:
    """The JSON that a value is, or its text if it is not JSON; None for a tombstone."""
    if raw is None:
        return None
    if len(raw) <= MAX_JSON_BYTES:
        try:
            return _decode(raw)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply; msgspec's errors are ValueErrors
            pass
    return to_text(raw)


def to_text(raw: bytes | None) -> str | None:
    """Bytes that are not UTF-8 become U+FFFD."""
    return None if raw is None else raw.decode(errors="replace")
