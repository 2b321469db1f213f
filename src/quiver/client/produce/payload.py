"""Turns the value, key and headers that users pass into the bytes that are stored."""

from collections.abc import Iterable, Mapping

from quiver.client.json_value import encode_json
from quiver.model.errors import InvalidRequest
from quiver.model.message import check_message_id


def value_bytes(value: object) -> bytes | None:
    """Bytes as they are, text as UTF-8, None as a tombstone, anything else as JSON: also dataclasses and models."""
    if type(value) is bytes or value is None:
        return value
    if isinstance(value, str):
        return _utf8(value, "value")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    try:
        return encode_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            problem=f"a value of type {type(value).__name__} cannot be encoded as JSON: {error}"
        ) from None


def key_bytes(key: object) -> bytes | None:
    """Bytes as they are, text as UTF-8, None for no key."""
    if type(key) is bytes or key is None:
        return key
    if isinstance(key, str):
        return _utf8(key, "key")
    if isinstance(key, bytes | bytearray | memoryview):
        return bytes(key)
    raise InvalidRequest(problem=f"a key must be text or bytes, not {type(key).__name__}")


def id_bytes(id: object) -> bytes | None:
    """Bytes as they are, text as UTF-8, None for no id."""
    if id is None:
        return None
    if not isinstance(id, bytes | bytearray | memoryview | str):
        raise InvalidRequest(problem=f"an id must be text or bytes, not {type(id).__name__}")
    found = _utf8(id, "id") if isinstance(id, str) else bytes(id)
    check_message_id(found)
    return found


def header_bytes(headers: object) -> dict[str, bytes] | None:
    """A mapping of names to bytes or text; None and an empty one mean no headers."""
    if not headers:
        return None
    if not isinstance(headers, Mapping):
        raise InvalidRequest(
            problem=f"headers must be a mapping of names to bytes or text, not {type(headers).__name__}"
        )
    return {_header_name(name): _header_value(name, value) for name, value in headers.items()}


def all_value_bytes(values: Iterable[object]) -> list[bytes | None]:
    return [value if type(value) is bytes else value_bytes(value) for value in values]


def all_key_bytes(keys: Iterable[object]) -> list[bytes | None]:
    return [key if type(key) is bytes else key_bytes(key) for key in keys]


def all_id_bytes(ids: Iterable[object]) -> list[bytes | None]:
    return [id_bytes(id) for id in ids]


def message_bytes(
    value: bytes | None, key: bytes | None, headers: Mapping[str, bytes] | None, id: bytes | None = None
) -> int:
    """What counts against the size limit of a message."""
    size = (len(value) if value else 0) + (len(key) if key else 0) + (len(id) if id else 0)
    if headers:
        size += sum(len(name.encode()) + len(content) for name, content in headers.items())
    return size


def _header_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidRequest(problem=f"header name {name!r} must be text")
    _utf8(name, "header name")
    return name


def _header_value(name: object, value: object) -> bytes:
    if isinstance(value, str):
        return _utf8(value, f"header {name!r}")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InvalidRequest(problem=f"header {name!r} must be text or bytes, not {type(value).__name__}")


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(problem=f"the {what} is not valid text: {error}") from None
