"""A topic and its settings."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from quiver.model.errors import InvalidRequest, InvalidSetting
from quiver.model.limits import KIB, MIB
from quiver.model.names import TopicId
from quiver.model.times import format_duration, parse_duration_ms

Durability = Literal["fsync", "interval", "memory"]
Cleanup = Literal["delete", "compact", "compact,delete"]

_DAY_MS = 86_400_000


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a topic; durations in milliseconds, None means no limit (or: the broker's default)."""

    partitions: int = 3
    retention_ms: int | None = 7 * _DAY_MS
    retention_bytes: int | None = None
    segment_bytes: int = 64 * MIB
    durability: Durability = "fsync"
    cleanup: Cleanup = "delete"
    max_message_bytes: int | None = None
    ttl_ms: int | None = None
    priority_weights: tuple[int, int, int, int, int] = (50, 25, 15, 7, 3)

    @property
    def roll_after_ms(self) -> int:
        """An active segment this old is closed, so that retention works on small topics too."""
        return _DAY_MS if self.retention_ms is None else max(1, min(_DAY_MS, self.retention_ms // 4))

    def settings(self) -> dict[str, Any]:
        """The settings by the names and in the form users write them."""
        return {
            "partitions": self.partitions,
            "retention": None if self.retention_ms is None else format_duration(self.retention_ms),
            "retention_bytes": self.retention_bytes,
            "segment_bytes": self.segment_bytes,
            "durability": self.durability,
            "cleanup": self.cleanup,
            "max_message_bytes": self.max_message_bytes,
            "ttl": None if self.ttl_ms is None else format_duration(self.ttl_ms),
            "priority_weights": list(self.priority_weights),
        }

    def changed(self, settings: Mapping[str, Any]) -> "TopicConfig":
        """This configuration with users' settings applied; every bad one is named in one InvalidSetting."""
        fields: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for name, value in settings.items():
            parse = _SETTINGS.get(name)
            if parse is None:
                problems[name] = f"is not a topic setting; there are {', '.join(sorted(_SETTINGS))}"
                continue
            try:
                fields[_FIELDS.get(name, name)] = parse(value)
            except (InvalidRequest, ValueError, TypeError) as error:
                problems[name] = str(error)
        if problems:
            raise InvalidSetting(
                "; ".join(f"setting {name!r}: {problem}" for name, problem in problems.items()),
                settings=problems,
            )
        return msgspec.structs.replace(self, **fields)


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    id: TopicId
    name: str
    config: TopicConfig
    created_at_ms: int


def _whole(low: int, high: int, optional: bool = False) -> Any:
    def parse(value: object) -> int | None:
        if value is None and optional:
            return None
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{value!r} is not a whole number from {low} to {high}")
        return value

    return parse


def _optional_duration(value: object) -> int | None:
    return None if value is None else parse_duration_ms(value)


def _one_of(kind: Any) -> Any:
    choices = get_args(kind)

    def parse(value: object) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return parse


def _weights(value: object) -> tuple[int, ...]:
    if isinstance(value, str):
        value = [int(part) for part in value.split("/" if "/" in value else ",")]
    if not isinstance(value, list | tuple) or len(value) != 5:
        raise ValueError("five weights are needed, from critical to background")
    if not all(isinstance(weight, int) and 1 <= weight <= 1000 for weight in value):
        raise ValueError("each weight is a whole number from 1 to 1000")
    return tuple(value)


_FIELDS = {"retention": "retention_ms", "ttl": "ttl_ms"}
_SETTINGS: dict[str, Any] = {
    "partitions": _whole(1, 10_000),
    "retention": _optional_duration,
    "retention_bytes": _whole(1, 2**62, optional=True),
    "segment_bytes": _whole(64 * KIB, 1024 * MIB),
    "durability": _one_of(Durability),
    "cleanup": _one_of(Cleanup),
    "max_message_bytes": _whole(1, 64 * MIB, optional=True),
    "ttl": _optional_duration,
    "priority_weights": _weights,
}
SETTING_NAMES: tuple[str, ...] = tuple(_SETTINGS)
