"""One cell of a table as text. Pure."""

import json
from datetime import datetime
from typing import Any

_NULL = "null"
_ELLIPSIS = "…"


def cell_text(value: Any, width: int) -> str:
    """Bytes as text where they are UTF-8, else in hexadecimal; structs, maps and lists as JSON."""
    shown = "".join(each if each.isprintable() else " " for each in _text(value))
    return shown if len(shown) <= width else shown[: max(0, width - 1)] + _ELLIPSIS


def _text(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bytes | bytearray):
        return _bytes_text(bytes(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, dict | list | tuple):
        return json.dumps(_plain(value), ensure_ascii=False, default=str)
    return str(value)


def _bytes_text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return text if all(each.isprintable() or each.isspace() for each in text) else f"0x{value.hex()}"


def _plain(value: Any) -> Any:
    """What JSON can hold; a row of Spark is an object."""
    if hasattr(value, "asDict"):
        return {name: _plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes | bytearray):
        return _bytes_text(bytes(value))
    return value
