"""Settings as users write them: parsed by name; one error names every bad setting."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from quiver.model.errors import InvalidRequest, InvalidSetting
from quiver.model.numbers import parse_size_bytes, shown, whole_number
from quiver.model.times import parse_duration_ms


class Setting(NamedTuple):
    field: str
    """The field that it sets."""
    parse: Callable[[object], Any]
    """Raises ValueError, TypeError or InvalidRequest."""


def parse_settings(kind: str, known: Mapping[str, Setting], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that users' settings set. One InvalidSetting names every bad setting."""
    fields: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, value in settings.items():
        setting = known.get(name)
        if setting is None:
            problems[name] = f"is not a {kind} setting; there are {', '.join(sorted(known))}"
            continue
        try:
            fields[setting.field] = setting.parse(value)
        except (InvalidRequest, ValueError, TypeError) as error:
            problems[name] = str(error)
    if problems:
        raise InvalidSetting(
            "; ".join(f"setting {name!r}: {problem}" for name, problem in problems.items()),
            settings=problems,
        )
    return fields


def whole(low: int, high: int, optional: bool = False) -> Callable[[object], int | None]:
    def parse(value: object) -> int | None:
        if value is None and optional:
            return None
        number = whole_number(value.strip()) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise ValueError(f"{shown(value)} is not a whole number from {low} to {high}")
        return number

    return parse


def size(low: int, high: int, optional: bool = False) -> Callable[[object], int | None]:
    def parse(value: object) -> int | None:
        return None if value is None and optional else parse_size_bytes(value, low, high)

    return parse


def optional_duration(value: object) -> int | None:
    return None if value is None else parse_duration_ms(value)


def duration(low_ms: int, high_ms: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        parsed = parse_duration_ms(value)
        if not low_ms <= parsed <= high_ms:
            raise ValueError(f"{shown(value)} is not between {low_ms} ms and {high_ms} ms")
        return parsed

    return parse


def true_or_false(value: object) -> bool:
    words = {"true": True, "false": False}
    if not isinstance(value, bool) and str(value).strip().lower() not in words:
        raise ValueError(f"{shown(value)} is neither true nor false")
    return value if isinstance(value, bool) else words[str(value).strip().lower()]


def one_of(kind: Any) -> Callable[[object], str]:
    choices = get_args(kind)

    def parse(value: object) -> str:
        if value not in choices:
            raise ValueError(f"{shown(value)} is not one of {', '.join(choices)}")
        return str(value)

    return parse
