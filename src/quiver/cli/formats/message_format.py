"""How `quiver consume` prints messages: a named format, or a template such as `{offset} {key} {value}`."""

from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import lru_cache
from string import Formatter
from typing import Any, NamedTuple

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.times import format_time


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]
    priority: str


class Format(NamedTuple):
    render: Callable[[Iterable[Row]], bytes]
    """The bytes of some messages, each with its line end."""
    fields: frozenset[str]
    """What it shows; rows may have anything in their other fields."""


_shown_time = lru_cache(maxsize=1024)(format_time)
"""Messages of one batch often share their timestamp."""

_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\0": "\0", "\\\\": "\\"}
_FIELDS: dict[str, Callable[[Row], bytes]] = {
    "topic": lambda row: row.topic.encode(),
    "partition": lambda row: b"%d" % row.partition,
    "offset": lambda row: b"%d" % row.offset,
    "timestamp": lambda row: _shown_time(row.timestamp_ms).encode(),
    "key": lambda row: row.key or b"",
    "value": lambda row: row.value or b"",
    "headers": lambda row: b",".join(name.encode() + b"=" + value for name, value in row.headers.items()),
    "priority": lambda row: row.priority.encode(),
}
NAMED = {
    "value": "{value}",
    "key-value": "{key}\\t{value}",
    "full": "{topic}-{partition}@{offset} {timestamp} {priority} key={key} headers={headers} {value}",
}
FORMAT_HELP = f"json, {', '.join(NAMED)}, or a template of {', '.join(f'{{{name}}}' for name in _FIELDS)}."


def parse_format(text: str) -> Format:
    """The format of a name or template. Raises InvalidRequest for anything else."""
    if text == "json":
        return Format(_json_lines, frozenset(_FIELDS))
    if text == "value":
        return Format(_values, frozenset(["value"]))
    template = NAMED.get(text, text)
    if "{" not in template:
        raise InvalidRequest(problem=f"format {text!r} is not {FORMAT_HELP}")
    return _template(template)


def unescape(text: str) -> str:
    """Text in which \\t, \\n, \\0 and \\\\ stand for what they usually stand for."""
    result, rest = "", text
    while rest:
        step = 2 if rest[:2] in _ESCAPES else 1
        result += _ESCAPES.get(rest[:step], rest[:step])
        rest = rest[step:]
    return result


def _template(template: str) -> Format:
    fields: set[str] = set()
    pieces: list[bytes | Callable[[Row], bytes]] = []
    try:
        for literal, field, spec, conversion in Formatter().parse(unescape(template)):
            pieces.append(literal.encode())
            if field is None:
                continue
            if spec or conversion or field not in _FIELDS:
                raise InvalidRequest(problem=f"{{{field}}} is not a field; a format is {FORMAT_HELP}")
            fields.add(field)
            pieces.append(_FIELDS[field])
    except ValueError as error:
        raise InvalidRequest(problem=f"format {template!r}: {error}") from None

    def render(rows: Iterable[Row]) -> bytes:
        lines = [b"".join(p if isinstance(p, bytes) else p(row) for p in pieces) for row in rows]
        return b"\n".join(lines) + b"\n" if lines else b""

    return Format(render, frozenset(fields))


def _values(rows: Iterable[Row]) -> bytes:
    values = [row.value or b"" for row in rows]
    return b"\n".join(values) + b"\n" if values else b""


def _json_lines(rows: Iterable[Row]) -> bytes:
    return msgspec.json.Encoder().encode_lines([to_object(row) for row in rows])


def to_object(row: Row) -> dict[str, Any]:
    """A message as an object, in the form of the HTTP responses: text where the bytes are text, base64 otherwise."""
    return {
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "timestamp": _shown_time(row.timestamp_ms),
        **_text("key", row.key),
        **(_text("value", row.value) or {"value": None}),
        **_headers(row.headers),
        "priority": row.priority,
    }


def _text(name: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def _headers(headers: dict[str, bytes]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        for kind, text in _text("headers", value).items():
            found.setdefault(kind, {})[name] = text
    return found
