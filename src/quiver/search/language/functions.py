"""The functions of the language. Each takes JSON values and returns one; what makes no sense is null or false."""

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.times import parse_time_ms
from quiver.search.language.operators import kind, texts_in
from quiver.search.language.row import JsonValue

_MAX_DIGITS = 40


class Function(NamedTuple):
    call: Callable[..., JsonValue]
    parameters: int
    usage: str


def _contains(value: JsonValue, part: JsonValue) -> bool:
    if type(part) is not str:
        return False
    return any(part in text for text in texts_in(value))


def _begins(value: JsonValue, part: JsonValue) -> bool:
    return type(value) is str and type(part) is str and value.startswith(part)


def _ends(value: JsonValue, part: JsonValue) -> bool:
    return type(value) is str and type(part) is str and value.endswith(part)


def _lower(value: JsonValue) -> JsonValue:
    return value.lower() if type(value) is str else None


def _upper(value: JsonValue) -> JsonValue:
    return value.upper() if type(value) is str else None


def _length(value: JsonValue) -> JsonValue:
    return len(value) if type(value) in (str, list, dict) else None


def _exists(value: JsonValue) -> bool:
    return value is not None


def _number(value: JsonValue) -> JsonValue:
    if type(value) in (int, float):
        return value
    if type(value) is not str or len(value) > _MAX_DIGITS:
        return None
    for convert in (int, float):
        try:
            found: JsonValue = convert(value)
        except ValueError:
            continue
        return found if math.isfinite(found) else None
    return None


def _string(value: JsonValue) -> JsonValue:
    if value is None or type(value) is str:
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, RecursionError, OverflowError):  # msgspec's errors are ValueErrors; so are lone surrogates
        return None


def _absolute(value: JsonValue) -> JsonValue:
    return abs(value) if type(value) in (int, float) else None


def _time(value: JsonValue) -> JsonValue:
    if type(value) not in (str, int, float):
        return None
    try:
        return parse_time_ms(value)
    except InvalidRequest:
        return None


FUNCTIONS: dict[str, Function] = {
    "contains": Function(_contains, 2, "contains(value, part): a text in it, however deep, has this part"),
    "startswith": Function(_begins, 2, "startswith(text, part)"),
    "endswith": Function(_ends, 2, "endswith(text, part)"),
    "lower": Function(_lower, 1, "lower(text)"),
    "upper": Function(_upper, 1, "upper(text)"),
    "len": Function(_length, 1, "len(x): characters of a text, items of a list, fields of an object"),
    "exists": Function(_exists, 1, "exists(x): it is there and not null"),
    "number": Function(_number, 1, "number(text)"),
    "string": Function(_string, 1, "string(x): its JSON, or the text itself"),
    "abs": Function(_absolute, 1, "abs(number)"),
    "time": Function(_time, 1, 'time("2026-01-31T12:00:00Z"): epoch milliseconds, to compare with timestamp'),
    "type": Function(kind, 1, "type(x): null, boolean, number, text, list or object"),
}
MATCHES = "matches"
MATCHES_USAGE = 'matches(text, "pattern"): a regular expression (RE2) finds something in the text'
METHODS = frozenset({"contains", "startswith", "endswith", "lower", "upper", MATCHES})
"""May also be written after a dot: `key.startswith("c-")`."""
