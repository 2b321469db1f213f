"""What operators do with JSON values. They never raise: what makes no sense is null, or false in a comparison."""

import operator
from collections.abc import Callable, Iterable

from quiver.search.language.row import JsonValue

_MAX_BITS = 128
"""Larger whole numbers are not calculated with, so that no expression can make a huge one."""
_MAX_JOINED = 64 * 1024
"""The characters of the longest text that + makes."""

Binary = Callable[[JsonValue, JsonValue], JsonValue]


def kind(value: JsonValue) -> str:
    """null, boolean, number, text, list or object."""
    return _KINDS.get(type(value), "null")


_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
}


def equal(left: JsonValue, right: JsonValue) -> bool:
    """False if one is null, or they are of different kinds."""
    if left is None or right is None:
        return False
    if type(left) is not type(right) and kind(left) != kind(right):
        return False
    try:
        return bool(left == right)
    except RecursionError:
        return False


def unequal(left: JsonValue, right: JsonValue) -> bool:
    """False if one is null."""
    return left is not None and right is not None and not equal(left, right)


def _ordered(compare: Callable[[JsonValue, JsonValue], bool]) -> Binary:
    def ordered(left: JsonValue, right: JsonValue) -> bool:
        left_kind = kind(left)
        if left_kind not in ("number", "text") or left_kind != kind(right):
            return False
        return compare(left, right)

    return ordered


def contained(item: JsonValue, container: JsonValue) -> bool:
    """A text in a text, an item in a list, or a name of an object."""
    if item is None:
        return False
    if type(container) is str:
        return type(item) is str and item in container
    if type(container) is dict:
        return type(item) is str and item in container
    if type(container) is list:
        return any(equal(item, other) for other in container)
    return False


def not_contained(item: JsonValue, container: JsonValue) -> bool:
    return item is not None and container is not None and not contained(item, container)


COMPARISONS: dict[str, Binary] = {
    "Eq": equal,
    "NotEq": unequal,
    "Lt": _ordered(operator.lt),
    "LtE": _ordered(operator.le),
    "Gt": _ordered(operator.gt),
    "GtE": _ordered(operator.ge),
    "In": contained,
    "NotIn": not_contained,
}


def compared_with(name: str, constant: JsonValue) -> Callable[[JsonValue], bool] | None:
    """What `COMPARISONS[name]` says of a value and a constant to its right, in one call; None if it has no short way.

    Nine of ten comparisons in a search are of this kind.
    """
    compare = _OPERATORS.get(name)
    if compare is None or type(constant) not in (int, float, str):
        return None
    if type(constant) is str:
        return lambda value: type(value) is str and compare(value, constant)
    return lambda value: (type(value) is int or type(value) is float) and compare(value, constant)


_OPERATORS: dict[str, Callable[[JsonValue, JsonValue], bool]] = {
    "Eq": operator.eq,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
}


def _is_number(value: JsonValue) -> bool:
    return type(value) is float or (type(value) is int and value.bit_length() <= _MAX_BITS)


def _calculated(calculate: Callable[[JsonValue, JsonValue], JsonValue]) -> Binary:
    def calculated(left: JsonValue, right: JsonValue) -> JsonValue:
        if not _is_number(left) or not _is_number(right):
            return None
        try:
            return calculate(left, right)
        except ArithmeticError:
            return None

    return calculated


_add = _calculated(operator.add)


def add(left: JsonValue, right: JsonValue) -> JsonValue:
    """The sum of numbers; texts are joined."""
    if type(left) is str and type(right) is str:
        return left + right if len(left) + len(right) <= _MAX_JOINED else None
    return _add(left, right)


ARITHMETIC: dict[str, Binary] = {
    "Add": add,
    "Sub": _calculated(operator.sub),
    "Mult": _calculated(operator.mul),
    "Div": _calculated(operator.truediv),
    "FloorDiv": _calculated(operator.floordiv),
    "Mod": _calculated(operator.mod),
}


def negative(value: JsonValue) -> JsonValue:
    return -value if _is_number(value) else None


def field(value: JsonValue, name: JsonValue) -> JsonValue:
    """A field of an object or an item of a list; null if there is none."""
    if type(value) is dict:
        return value.get(name) if type(name) is str else None
    if type(value) is list and type(name) is int and -len(value) <= name < len(value):
        return value[name]
    return None


def texts_in(value: JsonValue) -> Iterable[str]:
    """Every text in a value, however deep, names of fields included."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if type(found) is str:
            yield found
        elif type(found) is list:
            waiting += found
        elif type(found) is dict:
            yield from found
            waiting += found.values()
