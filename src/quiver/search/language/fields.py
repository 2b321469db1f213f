"""Which fields of the value an expression reads: the rest of the JSON need not become objects."""

import ast
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypedDict

import msgspec

from quiver.search.language.row import MAX_JSON_BYTES, JsonValue, read_value

ReadColumn = Callable[[list[Any]], list[JsonValue]]
"""From the rows of a column to what an expression reads of them."""


def value_reader(tree: ast.expr) -> ReadColumn:
    """Reads what an expression needs of values: all of them, or only some fields in a fraction of the time."""
    fields = _fields(tree)
    return read_values if fields is None else _field_reader(fields)


def read_values(rows: list[bytes | None]) -> list[JsonValue]:
    return [read_value(row) for row in rows]


def _fields(tree: ast.expr) -> set[str] | None:
    """None if the value itself is read, and not only fields of it."""
    uses = sum(isinstance(node, ast.Name) and node.id == "value" for node in ast.walk(tree))
    fields = list(_read_fields(tree))
    return set(fields) if fields and len(fields) == uses else None


def _read_fields(tree: ast.expr) -> Iterator[str]:
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="value"), attr=name) if node not in called:
                yield name
            case ast.Subscript(value=ast.Name(id="value"), slice=ast.Constant(value=str(name))):
                yield name


def _field_reader(fields: Collection[str]) -> ReadColumn:
    """What is not an object has no fields: it reads as None, and so does every field of it."""
    kind: Any = TypedDict("kind", dict.fromkeys(fields, Any), total=False)  # type: ignore[misc]
    decode = msgspec.json.Decoder(kind).decode

    def read(raw: bytes | None) -> JsonValue:
        if raw is None or len(raw) > MAX_JSON_BYTES:
            return None
        try:
            return decode(raw)
        except (ValueError, RecursionError):
            return None

    def read_all(rows: list[bytes | None]) -> list[JsonValue]:
        """Most topics have only objects, which are decoded without a call of Python for each."""
        try:
            if max(map(len, rows), default=0) <= MAX_JSON_BYTES:  # type: ignore[arg-type]
                return list(map(decode, rows))  # type: ignore[arg-type]
        except (TypeError, ValueError, RecursionError):  # a tombstone, or not an object
            pass
        return [read(row) for row in rows]

    return read_all
