"""Bytes without which no message can fit an expression: frames and messages without them are not looked at.

A clause is a choice: one of its parts must be in the message. An expression has any number of clauses, and all must
hold. JSON may write any character as an escape, so a value with a backslash always counts as having a part.
"""

import ast
import re
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.records.arrow_arrays import number_array, to_mask
from quiver.search.language.number_pattern import number_pattern

_MOST_PARTS = 8
_SAMPLE_ROWS, _MOST_KEPT = 64, 0.5
"""If a regular expression keeps more than this share of some rows, the others are not tested."""
_BLOCK_ROWS = 64
_BACKSLASH = rb"\\"
_PLAIN_PATTERN = re.compile(r"\^?([A-Za-z0-9 _:/@#,=-]+)\$?")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_ .:/@-]+")
_BETWEEN = "[ \t\r\n]*:[ \t\r\n]*"
_MIRRORED = {"Gt": "Lt", "GtE": "LtE", "Lt": "Gt", "LtE": "GtE"}
_EDGE = re.compile(r"\\[ABzZQC]|\(\?[a-z]*m")
_METHODS = frozenset({"contains", "startswith", "endswith", "matches"})


class Part(NamedTuple):
    column: str
    """value or key."""
    data: bytes
    may_be_escaped: bool
    """The column is JSON, in which the part may be written otherwise."""
    after: str = ""
    """A regular expression for what comes after it."""


Clause = tuple[Part, ...]
Columns = dict[str, pa.Array | None]
"""`value` and `key`, as binary arrays."""
Mask = npt.NDArray[np.bool_]


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
    numbers = _of_numbers(left, op, right)
    if numbers:
        return numbers
    match op, left, right:
        case ast.Eq(), path, ast.Constant(value=str(text)):
            return _clause(path, [text])
        case ast.Eq() | ast.In(), ast.Constant(value=str(text)), path:
            return _clause(path, [text])
        case ast.In(), path, ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            return _clause(path, texts) if len(texts) == len(items) else []
    return []


def _of_numbers(left: ast.expr, op: ast.cmpop, right: ast.expr) -> list[Clause]:
    """A field of the value compared with a number: its name and such a number must be there."""
    name, path, constant = type(op).__name__, left, _number(right)
    if constant is None:
        name, path, constant = _MIRRORED.get(name, name), right, _number(left)
    match path:
        case ast.Attribute(attr=field) | ast.Subscript(slice=ast.Constant(value=str(field))):
            pass
        case _:
            return []
    if constant is None or _column(path) != "value" or not _PLAIN_NAME.fullmatch(field):
        return []
    pattern = number_pattern(name, constant)
    return [] if pattern is None else [(Part("value", f'"{field}"'.encode(), True, _BETWEEN + pattern),)]


def _number(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as value) if type(value) is not bool:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
    return None


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
    if name != "matches":
        return _clause(path, [text])
    plain = _PLAIN_PATTERN.fullmatch(text)
    return _of_pattern(path, text) if plain is None else _clause(path, [plain[1]])


def _of_pattern(path: ast.expr, pattern: str) -> list[Clause]:
    """A text in the value is between quotes, as it is unless something in it is escaped: what a pattern without
    anchors finds in it, it finds in the value."""
    loose = pattern.removeprefix("^")
    if loose.endswith("$") and not loose.endswith("\\$"):
        loose = loose[:-1]
    is_anchored = "$" in loose or "^" in loose.replace("[^", "[") or _EDGE.search(loose)
    if _column(path) != "value" or is_anchored:
        return []
    return [(Part("value", b"", True, f"(?:{loose})"),)]


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


def possible(found: list[Clause], columns: Columns) -> Mask | Literal[False] | None:
    """The rows that may fit, None if all may, or False if none does."""
    mask: Mask | None = None
    for clause in found:
        ruled = _ruled(clause, columns)
        if ruled is False:
            return False
        if ruled is not None:
            mask = ruled if mask is None else mask & ruled
    return mask


def _ruled(clause: Clause, columns: Columns) -> Mask | Literal[False] | None:
    """The rows that have a part of a clause; False if no row has, None if it is not worth looking."""
    masks: list[Mask] = []
    for part in clause:
        column = columns[part.column]
        if column is None:
            continue
        if part.may_be_escaped:
            masks += _escaped(column)
        found = _rows_with(column.view(pa.string()) if part.after else column, part)
        if found is None:
            return None
        masks += found
    return np.logical_or.reduce(masks) if masks else False


def _escaped(column: pa.Array) -> list[Mask]:
    """The rows in which something is escaped, if there are any."""
    return [_with(column, _BACKSLASH)] if _with(_blocks(column), _BACKSLASH).any() else []


def _rows_with(column: pa.Array, part: Part) -> list[Mask] | None:
    """The rows that have a part, if there are any; None if most have it."""
    # Without the quote before a name: at each of the many quotes in JSON, RE2 would look further.
    hits = _with(_blocks(column), re.escape(part.data.lstrip(b'"')) + part.after.encode())
    if not hits.any():
        return []
    pattern = re.escape(part.data) + part.after.encode()
    if part.after and _with(column.slice(0, _SAMPLE_ROWS), pattern).mean() > _MOST_KEPT:
        return None
    if hits.mean() > _MOST_KEPT:
        return [_with(column, pattern)]
    rows = np.flatnonzero(np.repeat(hits, _BLOCK_ROWS)[: len(column)])
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = _with(column.take(number_array(rows)), pattern)
    return [mask]


def _blocks(column: pa.Array) -> pa.Array:
    """Some rows at a time as one: what is in none of many rows is known after a few calls of RE2. A part that lies
    across two rows is found too: no harm."""
    _, ends, data = column.buffers()
    if data is None:
        return column
    edges = np.frombuffer(ends, np.int32, len(column) + 1, 4 * column.offset)
    block_edges = np.append(edges[:-1:_BLOCK_ROWS], edges[-1:])
    return pa.Array.from_buffers(column.type, len(block_edges) - 1, [None, pa.py_buffer(block_edges), data])


def _with(column: pa.Array, pattern: bytes) -> Mask:
    """The rows in which RE2 finds something: for plain bytes too, ten times as fast as Arrow's own search."""
    found = pc.match_substring_regex(column, pattern)
    mask = to_mask(found)
    return mask & to_mask(found.is_valid()) if found.null_count else mask
