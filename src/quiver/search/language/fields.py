"""Which fields of the value an expression reads: the rest of the JSON need not become objects."""

import ast
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypedDict

import msgspec

from quiver.search.language.row import MAX_JSON_BYTES, JsonValue, read_value


def value_reader(tree: ast.expr) -> Callable[[bytes | None], JsonValue]:
    """Reads what an expression needs of a value: all of it, or only some fields in a fraction of the time."""
    fields = _fields(tree)
    return read_value if fields is None else _field_reader(fields)


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


def _field_reader(fields: Collection[str]) -> Callable[[bytes | None], JsonValue]:
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

    return read
