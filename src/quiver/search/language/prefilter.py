"""Bytes without which no message can fit an expression: frames and messages without them are not looked at.

A clause is a choice: one of its parts must be in the message. An expression has any number of clauses, and all must
hold. JSON may write any character as an escape, so a value with a backslash always counts as having a part.
"""

import ast
import re
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_MOST_PARTS = 8
_PLAIN_PATTERN = re.compile(r"\^?([A-Za-z0-9 _:/@#,=-]+)\$?")
_METHODS = frozenset({"contains", "startswith", "endswith", "matches"})


class Part(NamedTuple):
    column: str
    """value or key."""
    data: bytes
    may_be_escaped: bool
    """The column is JSON, in which the part may be written otherwise."""


Clause = tuple[Part, ...]
Columns = dict[str, pa.Array | None]
"""`value` and `key`, as binary arrays."""


def clauses(node: ast.expr) -> list[Clause]:
    """What must be in a message that fits; empty if nothing is certain."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return [clause for value in values for clause in clauses(value)]
        case ast.BoolOp(op=ast.Or(), values=values):
            best = [_best(clauses(value)) for value in values]
            if not all(best):
                return []
            joined = tuple(part for clause in best for part in clause)
            return [joined] if len(joined) <= _MOST_PARTS else []
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _of_comparison(left, op, right)
        case ast.Call():
            return _of_call(node)
    return []


def _of_comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> list[Clause]:
    match op, left, right:
        case ast.Eq(), path, ast.Constant(value=str(text)):
            return _clause(path, [text])
        case ast.Eq() | ast.In(), ast.Constant(value=str(text)), path:
            return _clause(path, [text])
        case ast.In(), path, ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            return _clause(path, texts) if len(texts) == len(items) else []
    return []


def _of_call(node: ast.Call) -> list[Clause]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[path, ast.Constant(value=str(text))]) if name in _METHODS:
            pass
        case ast.Call(func=ast.Attribute(value=path, attr=name), args=[ast.Constant(value=str(text))]) if (
            name in _METHODS
        ):
            pass
        case _:
            return []
    if name == "matches":
        plain = _PLAIN_PATTERN.fullmatch(text)
        return [] if plain is None else _clause(path, [plain[1]])
    return _clause(path, [text])


def _clause(path: ast.expr, texts: list[str]) -> list[Clause]:
    column = _column(path)
    if column is None or not 0 < len(texts) <= _MOST_PARTS:
        return []
    if not all(texts) or any("\N{REPLACEMENT CHARACTER}" in text for text in texts):
        return []
    try:
        data = [text.encode() for text in texts]
    except UnicodeEncodeError:  # a lone surrogate
        return []
    return [tuple(Part("key" if column == "key" else "value", part, column == "value") for part in data)]


def _column(path: ast.expr) -> str | None:
    """The column that a path leads into; None for what is calculated."""
    is_inside = False
    while isinstance(path, ast.Attribute | ast.Subscript):
        path, is_inside = path.value, True
    if isinstance(path, ast.Name) and (path.id == "value" or (path.id in ("key", "text") and not is_inside)):
        return path.id
    return None


def _best(found: list[Clause]) -> Clause:
    """The one that probably leaves out most."""
    return max(found, key=lambda clause: min(len(part.data) for part in clause), default=())


def possible(found: list[Clause], columns: Columns) -> Any:
    """A mask of the rows that may fit, None if all may, or False if none does."""
    contents = {name: b"" if column is None else _content(column) for name, column in columns.items()}
    mask = None
    for clause in found:
        ruled = _ruled(clause, columns, contents)
        if ruled is False:
            return False
        mask = ruled if mask is None else pc.and_(mask, ruled)
    return mask


def _ruled(clause: Clause, columns: Columns, contents: dict[str, bytes]) -> Any:
    """A mask of the rows that have a part of a clause; False if no row has."""
    masks: list[pa.Array] = []
    for part in clause:
        column, content = columns[part.column], contents[part.column]
        if part.may_be_escaped and b"\\" in content:
            masks.append(pc.match_substring(column, "\\"))
        if part.data in content:
            masks.append(pc.match_substring(column, part.data))
    if not masks:
        return False
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.or_(mask, other)
    return mask


def _content(column: pa.Array) -> bytes:
    """The bytes of all rows, one after the other. A part that lies across two rows is found too: no harm."""
    ends, data = column.buffers()[1:]
    if data is None or not len(column):
        return b""
    edges = memoryview(ends).cast("i")
    first, last = edges[column.offset], edges[column.offset + len(column)]
    return data.slice(first, last - first).to_pybytes()  # type: ignore[no-any-return]
